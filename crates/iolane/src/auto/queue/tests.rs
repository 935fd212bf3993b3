//! Lanes that stay, and requests that keep their targets.

use iolane_core::{Pages, Pool, Request};

use super::super::lane::Stays;
use super::super::tests::scratch;
use super::*;

#[test]
fn a_lane_with_requests_in_flight_stays_open_when_other_queues_need_the_cores() {
    let target = scratch("lanes", 1 << 16);
    let pool = Pool::new(4, 4096, Pages::Base).unwrap();
    // With a core named for the thread, nobody counts cores.
    let config = QueueConfig::new(4).pool(&pool).sqpoll_cpu(Some(0));
    let mut general = Lane::<Stays>::new(IoPath::new("psync"));
    general.open_general(&target, &config).unwrap();
    let others = vec![Lane::new(IoPath::new("io_uring").sqpoll())];
    let mut queue = AutoQueue::open(general, others, AutoOptions::default(), &target, &config).unwrap();
    if let Err(error) = queue.make_ready(1) {
        return println!("SKIPPED auto a lane with a submission thread: {error}");
    }
    queue.current = 1;
    let reads = (0..4).map(|block| Request::read(block, block * 4096, pool.take().unwrap()));
    assert_eq!(queue.submit(&mut reads.collect()), 4);
    queue.config.sqpoll_cpu = None;
    OPEN.fetch_add(1 << 20, Ordering::Relaxed);
    let stays = queue.make_ready(1);
    OPEN.fetch_sub(1 << 20, Ordering::Relaxed);
    assert!(!stays.unwrap(), "it was open");
    let mut completions = Vec::new();
    assert_eq!(queue.reap(4, &mut completions).unwrap(), 4);
    assert!(completions.iter().all(|completion| completion.result == Ok(4096)), "{completions:?}");
}

#[test]
fn requests_that_find_no_room_keep_their_target() {
    let [first, a, b, c] = ["first", "a", "b", "c"].map(|name| scratch(name, 1 << 16));
    let pool = Pool::new(6, 4096, Pages::Base).unwrap();
    let config = QueueConfig::new(2).pool(&pool).targets(4);
    let mut general = Lane::<Stays>::new(IoPath::new("libaio"));
    general.open_general(&first, &config).unwrap();
    let others = vec![Lane::new(IoPath::new("io_uring"))];
    let mut queue = AutoQueue::open(general, others, AutoOptions::default(), &first, &config).unwrap();
    // The lane is opened when one has gone, and gives the others numbers of its own.
    let [gone, _, kept] = [&a, &b, &c].map(|target| queue.attach(target).unwrap());
    queue.detach(gone).unwrap();
    if let Err(error) = queue.make_ready(1) {
        return println!("SKIPPED auto a lane with numbers of its own: {error}");
    }
    queue.current = 1;
    queue.see_whether_simple();
    assert!(queue.is_simple);
    let write = |block| {
        let mut buffer = pool.take().unwrap();
        buffer.fill(7);
        Request::write(block, block * 4096, buffer).on(kept)
    };
    let mut requests: Vec<Request> = (0..6).map(write).collect();
    let mut completions = Vec::new();
    while completions.len() < 6 {
        queue.turn(&mut requests, 1, &mut completions).unwrap();
        assert!(requests.iter().all(|request| request.target == kept), "{requests:?}");
    }
    assert!(completions.iter().all(|completion| completion.result == Ok(4096)), "{completions:?}");
}

#[test]
fn a_lane_whose_requests_the_general_one_carries_is_tried_once_and_not_held() {
    let target = scratch("carried", 1 << 16);
    // The lane registers the memory of one pool; the requests have that of another.
    let [registered, used] = [(); 2].map(|()| Pool::new(4, 4096, Pages::Base).unwrap());
    let config = QueueConfig::new(4).pool(&registered);
    let mut general = Lane::<Stays>::new(IoPath::new("psync"));
    general.open_general(&target, &config).unwrap();
    let path = IoPath::new("io_uring").registered();
    let others = vec![Lane::new(path.clone())];
    let mut queue = AutoQueue::open(general, others, AutoOptions::default(), &target, &config).unwrap();
    if let Err(error) = queue.make_ready(1) {
        return println!("SKIPPED auto a lane that does not take the requests: {error}");
    }
    let mut completions = Vec::new();
    let is_held = |queue: &AutoQueue<Stays>| queue.changes.iter().any(|change| change.reason == Reason::Best.text());
    while !is_held(&queue) {
        let mut read = vec![Request::read(0, 0, used.take().unwrap())];
        queue.turn(&mut read, 1, &mut completions).unwrap();
        assert!(completions.drain(..).all(|completion| completion.result == Ok(4096)));
    }
    let tried = queue.changes.iter().filter(|change| change.path == path);
    assert_eq!(tried.map(|change| change.reason).collect::<Vec<_>>(), [Reason::Tried.text()], "{:?}", queue.changes);
    assert_eq!(queue.lanes[1].ios(), 0);
}
