//! `iolane nvme`: lists controllers, takes one from the kernel, and gives it back. The library decides what may be taken.

use std::path::Path;

use iolane::Error;
use iolane::nvme::{self, Bdf, Bound, ListedController, Owner, Restored, Returned, Taken};
use iolane_study::format;
use serde::Serialize;

use crate::arguments::{NvmeBindArguments, NvmeCommand};
use crate::outcome::Outcome;
use crate::output::{self, CellAlignment, Outputs, complain, warn};

pub(crate) fn nvme(command: NvmeCommand) -> anyhow::Result<Outcome> {
    report_interrupted()?;
    match command {
        NvmeCommand::List { json } => list(&Outputs::checked(json, &[])?),
        NvmeCommand::Bind(arguments) => bind(&arguments),
        NvmeCommand::Restore { bdf } => restore(&bdf),
    }
}

/// Gives back controllers that a killed process had taken only in part.
fn report_interrupted() -> anyhow::Result<()> {
    for (bdf, outcome) in nvme::finish_interrupted()? {
        match outcome {
            Ok(returned) => {
                complain(&format!("{bdf}: half taken by a process that was killed; now {}", became(&returned)))
            }
            Err(error) => warn(&error.to_string()),
        }
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
    fn new(controllers: &'a [ListedController]) -> Self {
        Self { schema: "iolane.nvme/1", controllers: controllers.iter().map(ControllerRecord::new).collect() }
    }
}

impl<'a> ControllerRecord<'a> {
    fn new(controller: &'a ListedController) -> Self {
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

fn list(outputs: &Outputs) -> anyhow::Result<Outcome> {
    let controllers = nvme::controllers()?;
    outputs.text(&text(&controllers))?;
    outputs.document(&NvmeReport::new(&controllers))?;
    Ok(Outcome::Done)
}

fn text(controllers: &[ListedController]) -> String {
    if controllers.is_empty() {
        return "This machine has no NVMe controller (PCI class 010802).\n\
                For a virtual machine with two: iolane lab run --nvme 2 -- nvme list\n"
            .into();
    }
    let rows: Vec<Vec<String>> = controllers.iter().flat_map(rows).collect();
    let headings = ["controller", "model", "namespace", "size", "driver", "group", "in use"];
    output::table(&headings, &rows, CellAlignment::Left)
}

/// A line for each namespace, the first with the controller; one line if there are none.
fn rows(controller: &ListedController) -> Vec<Vec<String>> {
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
            ["", "", &found.name, &format::bytes(found.bytes), "", "", &uses].map(shown).into()
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

/// Text from a device, a mount or a process, which must not control the terminal.
fn shown(text: &str) -> String {
    text.replace(char::is_control, "?")
}

fn bind(arguments: &NvmeBindArguments) -> anyhow::Result<Outcome> {
    let owner = owner(arguments)?;
    let mut printed = Ok(());
    let result = nvme::bind(&arguments.bdf, owner, &mut |bound| {
        // Binding goes on if printing fails.
        if printed.is_ok() {
            printed = output::print(&format!("{}\n", bound_text(bound)));
        }
    });
    result?;
    printed?;
    if owner.is_some() {
        output::print(LOCKED_MEMORY)?;
    }
    Ok(Outcome::Done)
}

const LOCKED_MEMORY: &str = "\
Without root, buffers and queues must fit the limit of locked memory (`ulimit -l`, in KiB): depth x block
size of every queue, plus some MiB. docs/nvme-binding.md shows how to raise it.
";

fn bound_text(bound: &Bound) -> String {
    let (bdf, node) = (bound.bdf, bound.node.display());
    match &bound.how {
        Taken::From(driver) => {
            let from = driver.as_ref().map(|driver| format!(" from {driver}")).unwrap_or_default();
            format!("{bdf}: taken{from}; IOMMU group {node}; `iolane nvme restore {bdf}` gives it back")
        }
        Taken::Before => format!("{bdf}: already taken; IOMMU group {node}"),
        Taken::ByOthers => format!("{bdf}: already bound to vfio-pci, not by iolane; IOMMU group {node}"),
    }
}

/// The user and group that get the device nodes, if any were given.
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
        // chown(2) reserves the highest number for "unchanged".
        return if number == u32::MAX { Err(Error::usage(what(), "that number is reserved")) } else { Ok(number) };
    }
    let text = std::fs::read_to_string(Path::new(file)).unwrap_or_default();
    let number = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    number.ok_or_else(|| Error::usage(what(), format!("no such name in {file}")).remedy("give the number (`id NAME`)"))
}

fn restore(bdfs: &[Bdf]) -> anyhow::Result<Outcome> {
    let restored = nvme::restore(bdfs)?;
    if restored.is_empty() {
        output::print("Nothing to restore: iolane has taken no controller.\n")?;
    }
    let mut failures = Vec::new();
    for (bdf, outcome) in restored {
        match outcome {
            Ok(Restored::Returned(returned)) => output::print(&format!("{bdf}: {}\n", became(&returned)))?,
            Ok(Restored::WasNotTaken(driver)) => {
                let driver = driver.unwrap_or_else(|| "none".into());
                output::print(&format!("{bdf}: nothing to restore, its driver is {driver}\n"))?;
            }
            Err(error) => failures.push(error),
        }
    }
    // `main` prints the last one, which decides the exit code.
    let Some(last) = failures.pop() else { return Ok(Outcome::Done) };
    failures.iter().for_each(|error| warn(&error.to_string()));
    Err(last.into())
}

fn became(returned: &Returned) -> String {
    match returned {
        Returned::ToDriver(driver) => format!("given back to {driver}"),
        Returned::ToNobody => "released; it had no driver before".into(),
        Returned::Gone => "no longer in the machine; its record was removed".into(),
        Returned::LeftTo(driver) => format!("left to {driver}, which took it meanwhile; its record was removed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane::nvme::ListedNamespace;

    fn controller(namespaces: Vec<ListedNamespace>) -> ListedController {
        ListedController {
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

    fn namespace(name: &str, used_by: &[&str]) -> ListedNamespace {
        let used_by = used_by.iter().map(|text| (*text).to_owned()).collect();
        ListedNamespace { name: name.into(), bytes: 3_840_755_982_336, used_by }
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
            ListedController { driver: None, iommu_group: None, model: None, ..controller(Vec::new()) },
        ]);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        for words in ["10000:e1:00.0", "nvme10n1 ", "nvme10n2 ", "3.49 TiB", "117", "144d:a80a", "123456"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn a_taken_controller_is_listed_with_who_has_it_open() {
        let taken = ListedController {
            driver: Some("vfio-pci".into()),
            taken: true,
            used_by: vec!["iolane (pid 7) has /dev/vfio/3 open".into()],
            ..controller(Vec::new())
        };
        assert_eq!(rows(&taken)[0][6], "taken by `iolane nvme bind`; iolane (pid 7) has /dev/vfio/3 open");
    }

    #[test]
    fn users_are_given_by_number_or_name() {
        let number = |name| number_of(name, "--user", "/etc/passwd").map_err(|error| error.to_string());
        assert_eq!(number("1000"), Ok(1000));
        assert_eq!(number("root"), Ok(0));
        assert!(number("4294967295").unwrap_err().starts_with("--user 4294967295: that number is reserved"));
        for name in ["", "no such user", "roo", "-1", "root:x"] {
            assert!(number(name).unwrap_err().contains("give the number"), "{name}");
        }
    }
}
