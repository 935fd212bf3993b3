use iolane_core::{Buffers, IoError, Pages, Pool};

use super::*;

/// Answers every request with all its bytes, and does what a test tells it besides.
struct Liar {
    held: Vec<Request>,
    depth: usize,
    takes_more: usize,
    takes_from_behind: bool,
    counts_more: usize,
    withholds: usize,
}

impl Liar {
    fn honest() -> Self {
        Self { held: Vec::new(), depth: 2, takes_more: 0, takes_from_behind: false, counts_more: 0, withholds: 0 }
    }
}

impl Queue for Liar {
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        let taken = requests.len().min(self.depth - self.held.len() + self.takes_more);
        let from = if self.takes_from_behind { requests.len() - taken } else { 0 };
        self.held.extend(requests.drain(from..from + taken));
        taken
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn reap(&mut self, _min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        let count = self.held.len() - self.withholds;
        let ends = |request: Request| {
            let bytes = request.operation.bytes() as u32;
            request.complete(Ok(bytes))
        };
        completions.extend(self.held.drain(..count).map(ends));
        Ok(count + self.counts_more)
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.held.len()
    }

    fn syscalls(&self) -> Option<u64> {
        None
    }
}

/// Three writes of a buffer each, of which a queue of depth 2 has room for two.
fn asked(contract: &mut Contract<()>) -> (Pool, Vec<Request>) {
    let pool = Pool::new(4, 4096, Pages::Base).unwrap();
    let requests: Vec<_> = (0..3).map(|tag| Request::write(tag, 0, pool.take().unwrap())).collect();
    requests.iter().for_each(|request| contract.asks(request, ()));
    (pool, requests)
}

/// What the contract says of a queue that submits and reaps by two calls, and by one.
fn violations(liar: impl Fn() -> Liar) -> [String; 2] {
    let said = |kept: Kept<()>| kept.err().map_or_else(String::new, |violation| violation.to_string());
    let by_two_calls = || {
        let (mut contract, mut queue, mut ended) = (Contract::default(), liar(), Vec::new());
        let (_pool, mut waiting) = asked(&mut contract);
        contract.submit(&mut queue, &mut waiting)?;
        contract.reap(&mut queue, 2, &mut ended)?.unwrap();
        ended.iter().try_for_each(|completion| contract.answers(completion).map(drop))?;
        contract.counts(&queue, waiting.len())
    };
    let by_one = || {
        let (mut contract, mut queue, mut ended) = (Contract::default(), liar(), Vec::new());
        let (_pool, mut waiting) = asked(&mut contract);
        contract.turn(&mut queue, &mut waiting, 2, &mut ended)?.unwrap();
        ended.iter().try_for_each(|completion| contract.answers(completion).map(drop))?;
        contract.counts(&queue, waiting.len())
    };
    [said(by_two_calls()), said(by_one())]
}

#[test]
fn a_queue_that_takes_and_answers_what_it_has_room_for_keeps_the_contract() {
    assert_eq!(violations(Liar::honest), ["", ""]);
}

#[test]
fn a_queue_that_takes_more_or_others_or_counts_wrong_or_answers_too_few_violates_it() {
    let more = violations(|| Liar { takes_more: 1, ..Liar::honest() });
    assert_eq!(more, [(); 2].map(|()| "3 of 3 requests are taken where 2 fit"));
    let others = violations(|| Liar { takes_from_behind: true, ..Liar::honest() });
    assert!(others[0].starts_with("the first of those left"), "{others:?}");
    let counts = violations(|| Liar { counts_more: 1, ..Liar::honest() });
    assert_eq!(counts, [(); 2].map(|()| "it counts 3 completions, and appends 2"));
    let few = violations(|| Liar { withholds: 1, ..Liar::honest() });
    assert_eq!(few, [(); 2].map(|()| "1 completions where 2 were to come"));
}

#[test]
fn an_answer_that_comes_twice_or_with_other_buffers_or_too_many_bytes_violates_it() {
    let mut contract = Contract::default();
    let pool = Pool::new(5, 4096, Pages::Base).unwrap();
    let taken = || pool.take().unwrap();
    let ask = |contract: &mut Contract<()>, request: Request| {
        contract.asks(&request, ());
        request
    };

    let request = ask(&mut contract, Request::fsync(7));
    let completion = request.complete(Ok(0));
    assert!(contract.answers(&completion).is_ok());
    assert!(contract.answers(&completion).unwrap_err().to_string().contains("twice"));

    // The buffers of a vectored read in another order, and shorter.
    let (first, second) = (taken(), taken());
    let _ = ask(&mut contract, Request::read_vectored(8, 0, Buffers::new(vec![first, second]).unwrap())).operation;
    let (mut other, another) = (taken(), taken());
    other.set_len(512).unwrap();
    let swapped = Request::read_vectored(8, 0, Buffers::new(vec![other, another]).unwrap()).complete(Ok(8192));
    assert!(contract.answers(&swapped).unwrap_err().to_string().contains("with the buffers"));

    let request = ask(&mut contract, Request::read(9, 0, taken()));
    assert!(contract.answers(&request.complete(Ok(4097))).unwrap_err().to_string().contains("4097 bytes of 4096"));
    // A failure moves nothing.
    let request = ask(&mut contract, Request::fsync(10));
    assert!(contract.answers(&request.complete(Err(IoError::CANCELLED))).is_ok());
    assert!(contract.owed().is_empty());
}
