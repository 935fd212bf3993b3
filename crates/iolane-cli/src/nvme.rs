//! `iolane nvme`: the controllers there are, taking one from the kernel and giving it back. What may be taken is decided
//! in the library.

use std::path::{Path, PathBuf};

use iolane::Error;
use iolane::nvme::{self, Bdf, Bound, Controller, Owner, Restored, Returned, Taken};
use serde::Serialize;

use crate::arguments::{NvmeBindArguments, NvmeCommand};
use crate::output::CellAlignment;
use crate::{Outcome, output};

pub(crate) fn nvme(command: &NvmeCommand) -> anyhow::Result<Outcome> {
    tell_of_interrupted()?;
    match command {
        NvmeCommand::List { json } => list(json.as_deref()),
        NvmeCommand::Bind(arguments) => bind(arguments),
        NvmeCommand::Restore { bdf } => restore(bdf),
    }
}

/// Gives back what a process that was killed had half taken.
fn tell_of_interrupted() -> anyhow::Result<()> {
    for (bdf, outcome) in nvme::finish_interrupted()? {
        output::complain(&match outcome {
            Ok(returned) => format!("{bdf}: left half taken by a process that was killed; now {}", became(&returned)),
            Err(error) => format!("iolane: {error}"),
        });
    }
    Ok(())
}

/// What `iolane nvme list` writes as JSON.
#[derive(Serialize)]
struct NvmeReport<'a> {
    schema: &'static str,
    controllers: Vec<ControllerRecord<'a>>,
}

#[derive(Serialize)]
struct ControllerRecord<'a> {
    address: String,
    model: Option<&'a str>,
    pci_id: Option<&'a str>,
    driver: Option<&'a str>,
    iommu_group: Option<u32>,
    vfio_node: Option<String>,
    taken: bool,
    used_by: &'a [String],
    namespaces: Vec<NamespaceRecord<'a>>,
}

#[derive(Serialize)]
struct NamespaceRecord<'a> {
    name: &'a str,
    bytes: u64,
    used_by: &'a [String],
}

impl<'a> NvmeReport<'a> {
    fn new(controllers: &'a [Controller]) -> Self {
        Self { schema: "iolane.nvme/1", controllers: controllers.iter().map(ControllerRecord::new).collect() }
    }
}

impl<'a> ControllerRecord<'a> {
    fn new(controller: &'a Controller) -> Self {
        let namespaces = controller.namespaces.iter();
        Self {
            address: controller.bdf.to_string(),
            model: controller.model.as_deref(),
            pci_id: controller.pci_id.as_deref(),
            driver: controller.driver.as_deref(),
            iommu_group: controller.iommu_group,
            vfio_node: controller.vfio_node.as_ref().map(|node| node.display().to_string()),
            taken: controller.taken,
            used_by: &controller.used_by,
            namespaces: namespaces
                .map(|found| NamespaceRecord { name: &found.name, bytes: found.bytes, used_by: &found.used_by })
                .collect(),
        }
    }
}

fn list(json: Option<&Path>) -> anyhow::Result<Outcome> {
    if let Some(file) = json {
        output::check_writable(file, &[])?;
    }
    let controllers = nvme::controllers()?;
    if !output::json_on_stdout(json) {
        output::print(&text(&controllers))?;
    }
    if let Some(file) = json {
        output::write_json(file, &NvmeReport::new(&controllers))?;
    }
    Ok(Outcome::Done)
}

fn text(controllers: &[Controller]) -> String {
    if controllers.is_empty() {
        return "This machine has no NVMe controller (PCI class 010802).\n\
                A virtual one has: iolane lab run --nvme 2 -- nvme list\n"
            .into();
    }
    let rows: Vec<Vec<String>> = controllers.iter().flat_map(rows).collect();
    let headings = ["controller", "model", "namespace", "size", "driver", "group", "in use"];
    output::table(&headings, &rows, CellAlignment::Left)
}

/// A line for each namespace, the first with what the controller is; one line if there are none.
fn rows(controller: &Controller) -> Vec<Vec<String>> {
    let dash = || "-".to_owned();
    let mut own_uses = controller.used_by.clone();
    if controller.taken {
        own_uses.insert(0, "taken by `iolane nvme bind`".into());
    }
    let model = controller.model.as_ref().or(controller.pci_id.as_ref()).cloned().unwrap_or_else(dash);
    let group = controller.iommu_group.map_or_else(dash, |group| group.to_string());
    let mut rows: Vec<Vec<String>> = controller
        .namespaces
        .iter()
        .map(|found| {
            let uses = found.used_by.join("; ");
            ["", "", &found.name, &output::size(found.bytes), "", "", &uses].map(shown).into()
        })
        .collect();
    if rows.is_empty() {
        rows.push(["", "", "-", "", "", "", ""].map(shown).into());
    }
    let driver = controller.driver.clone().unwrap_or_else(dash);
    for (column, cell) in [(0, controller.bdf.to_string()), (1, model), (4, driver), (5, group)] {
        rows[0][column] = shown(&cell);
    }
    let uses: Vec<&str> =
        own_uses.iter().map(String::as_str).chain([rows[0][6].as_str()]).filter(|uses| !uses.is_empty()).collect();
    rows[0][6] = shown(&uses.join("; "));
    rows
}

/// Text that came from a device, a mount or a process, made harmless to a terminal.
fn shown(text: &str) -> String {
    text.replace(char::is_control, "?")
}

fn bind(arguments: &NvmeBindArguments) -> anyhow::Result<Outcome> {
    let owner = owner(arguments)?;
    let mut told = Ok(());
    let result = nvme::bind(&arguments.bdf, owner, &mut |bound| {
        // What was done is done, whether or not it can be told.
        if told.is_ok() {
            told = output::print(&format!("{}\n", bound_text(bound)));
        }
    });
    result?;
    told?;
    if owner.is_some() {
        output::print(LOCKED_MEMORY)?;
    }
    Ok(Outcome::Done)
}

const LOCKED_MEMORY: &str = "\
Without root, buffers and queues have to fit the limit of locked memory (`ulimit -l`, in KiB): depth x block size
of every queue and some MiB more. docs/nvme-binding.md says how to raise it.
";

fn bound_text(bound: &Bound) -> String {
    let (bdf, node) = (bound.bdf, bound.node.display());
    match &bound.how {
        Taken::From(driver) => {
            let from = driver.as_ref().map(|driver| format!(" from {driver}")).unwrap_or_default();
            format!("{bdf}: taken{from}; its group is {node}; `iolane nvme restore {bdf}` gives it back")
        }
        Taken::Before => format!("{bdf}: was taken already; its group is {node}"),
        Taken::ByOthers => format!("{bdf}: vfio-pci had it already, not by iolane; its group is {node}"),
    }
}

/// Whom the nodes are given to, if that was asked for.
fn owner(arguments: &NvmeBindArguments) -> iolane::Result<Option<Owner>> {
    let number = |name: &Option<String>, option: &str, file: &str| {
        name.as_ref().map(|name| number_of(name, option, file)).transpose()
    };
    let user = number(&arguments.user, "--user", "/etc/passwd")?;
    let group = number(&arguments.group, "--group", "/etc/group")?;
    Ok((user.is_some() || group.is_some()).then_some(Owner { user, group }))
}

/// The number of a user or group: given as such, or looked up in a file whose lines are `name:password:number:...`
/// (passwd(5), group(5)).
fn number_of(name: &str, option: &str, file: &str) -> iolane::Result<u32> {
    let what = || format!("{option} {}", shown(name));
    if let Ok(number) = name.parse::<u32>() {
        // chown(2) takes the highest number for "leave it as it is".
        return if number == u32::MAX { Err(Error::usage(what(), "nobody has that number")) } else { Ok(number) };
    }
    let text = std::fs::read_to_string(PathBuf::from(file)).unwrap_or_default();
    let number = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    number.ok_or_else(|| {
        Error::usage(what(), format!("there is none of that name in {file}")).remedy("give the number (`id NAME`)")
    })
}

fn restore(bdfs: &[Bdf]) -> anyhow::Result<Outcome> {
    let restored = nvme::restore(bdfs)?;
    if restored.is_empty() {
        output::print("Nothing to give back: no controller is taken.\n")?;
    }
    let mut failures = Vec::new();
    for (bdf, outcome) in restored {
        match outcome {
            Ok(Restored::Returned(returned)) => output::print(&format!("{bdf}: {}\n", became(&returned)))?,
            Ok(Restored::WasNotTaken(driver)) => {
                let driver = driver.unwrap_or_else(|| "no driver".into());
                output::print(&format!("{bdf}: nothing to give back, {driver} has it\n"))?;
            }
            Err(error) => failures.push(error),
        }
    }
    // The last is told by whoever called, and decides the exit code.
    let Some(last) = failures.pop() else { return Ok(Outcome::Done) };
    for error in failures {
        output::complain(&format!("iolane: {error}"));
    }
    Err(last.into())
}

fn became(returned: &Returned) -> String {
    match returned {
        Returned::ToDriver(driver) => format!("given back to {driver}"),
        Returned::ToNobody => "let go; it had no driver before".into(),
        Returned::Gone => "not in the machine any more; forgotten".into(),
        Returned::LeftTo(driver) => format!("left to {driver}, which somebody gave it to meanwhile; forgotten"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane::nvme::Namespace;

    fn controller(namespaces: Vec<Namespace>) -> Controller {
        Controller {
            bdf: "10000:e1:00.0".parse().unwrap(),
            model: Some("SAMSUNG MZQL23T8HCLS-00A07 Data Center".into()),
            pci_id: Some("144d:a80a".into()),
            driver: Some("nvme".into()),
            iommu_group: Some(117),
            vfio_node: None,
            taken: false,
            namespaces,
            used_by: Vec::new(),
        }
    }

    fn namespace(name: &str, used_by: &[&str]) -> Namespace {
        let used_by = used_by.iter().map(|text| (*text).to_owned()).collect();
        Namespace { name: name.into(), bytes: 3_840_755_982_336, used_by }
    }

    #[test]
    fn the_list_fits_100_columns_and_has_a_line_for_each_namespace() {
        let uses = [
            "its partition nvme10n1p2 is mounted at /var/lib/postgresql/14/main",
            "md127 is built on it",
            "fio (pid 123456) has it open",
        ];
        let text = text(&[
            controller(vec![namespace("nvme10n1", &uses), namespace("nvme10n2", &[])]),
            Controller { driver: None, iommu_group: None, model: None, ..controller(Vec::new()) },
        ]);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        for words in ["10000:e1:00.0", "nvme10n1 ", "nvme10n2 ", "3.49t", "117", "144d:a80a", "123456"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn what_iolane_took_is_told_with_who_has_it_open() {
        let taken = Controller {
            driver: Some("vfio-pci".into()),
            taken: true,
            used_by: vec!["iolane (pid 7) has /dev/vfio/3 open".into()],
            ..controller(Vec::new())
        };
        assert_eq!(rows(&taken)[0][6], "taken by `iolane nvme bind`; iolane (pid 7) has /dev/vfio/3 open");
    }

    #[test]
    fn users_are_taken_by_number_and_by_name() {
        let number = |name| number_of(name, "--user", "/etc/passwd").map_err(|error| error.to_string());
        assert_eq!(number("1000"), Ok(1000));
        assert_eq!(number("root"), Ok(0));
        assert!(number("4294967295").unwrap_err().starts_with("--user 4294967295: nobody has that number"));
        for name in ["", "no such user", "roo", "-1", "root:x"] {
            assert!(number(name).unwrap_err().contains("give the number"), "{name}");
        }
    }
}
