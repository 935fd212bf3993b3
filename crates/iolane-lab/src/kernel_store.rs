//! Kernels in the cache: an image ready to run, the modules a guest needs, and their checksums, which are verified at each
//! use. What makes a kernel that is not there yet is the caller's; nothing is fetched here.

use std::fs;
use std::path::Path;

use iolane_core::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::cache::Cache;
use crate::kernel::{Kernel, is_version};
use crate::modules::{self, Module};
use crate::{boot_image, files};

/// A kernel from the cache, or one that is made in a workshop and kept there from now on.
pub(crate) fn kept_or_made(name: &str, cache: &Cache, make: impl FnOnce(&Path) -> Result<Kernel>) -> Result<Kernel> {
    let place = cache.kernels().join(name);
    if let Some(kept) = load(&place)? {
        return Ok(kept);
    }
    let workshop = cache.workshop()?;
    // Another run may have made it while this one waited for the lock.
    if let Some(kept) = load(&place)? {
        return Ok(kept);
    }
    let kernel = make(workshop.folder())?;
    keep(&kernel, &place, workshop.folder())?;
    load(&place)?.ok_or_else(|| Error::failed(format!("kernel {name}"), "it was gone as soon as it was written"))
}

/// The kernels in the cache that can be named by a version, each with that; those that are damaged are left out.
pub fn kept(cache: &Cache) -> Vec<(String, Kernel)> {
    let places = files::list(&cache.kernels());
    let named = places.iter().filter_map(|place| Some((place.file_name()?.to_str()?.to_owned(), place)));
    let versions = named.filter(|(name, _)| is_version(name));
    versions.filter_map(|(name, place)| Some((name, load(place).ok()??))).collect()
}

/// What the image is called in the cache.
/// What makes a folder one of a kernel: it is written last, and with the others moved to its place.
const MANIFEST: &str = "kernel.json";
const IMAGE: &str = "vmlinux";

/// What the cache says of a kernel, beside its files.
#[derive(Serialize, Deserialize)]
struct Manifest {
    release: String,
    origin: String,
    /// The modules this was made for; another iolane may want others.
    wanted: Vec<String>,
    image_sha256: String,
    /// Name and SHA-256, in load order.
    modules: Vec<(String, String)>,
}

fn wanted_names() -> Vec<String> {
    modules::all_wanted().iter().map(|wanted| wanted.name.to_owned()).collect()
}

/// Writes a kernel beside its place, then moves it there, so that a kill leaves all or nothing.
fn keep(kernel: &Kernel, place: &Path, workshop: &Path) -> Result<()> {
    let made = workshop.join("kept");
    files::make_folder(&made)?;
    let image = boot_image::ready_to_run(files::read(&kernel.image)?);
    files::write(&made.join(IMAGE), &image)?;
    for module in &kernel.modules {
        files::write(&made.join(format!("{}.ko", module.name)), &module.bytes)?;
    }
    let manifest = Manifest {
        release: kernel.release.clone(),
        origin: kernel.origin.clone(),
        wanted: wanted_names(),
        image_sha256: files::sha256(&image),
        modules: kernel.modules.iter().map(|module| (module.name.clone(), files::sha256(&module.bytes))).collect(),
    };
    let text = serde_json::to_vec_pretty(&manifest).map_err(|error| Error::failed("kernel.json", error.to_string()))?;
    files::write(&made.join(MANIFEST), &text)?;
    let moved = || {
        if place.join(MANIFEST).exists() {
            fs::remove_dir_all(place)?;
        }
        fs::create_dir_all(place.parent().unwrap_or(place))?;
        fs::rename(&made, place)
    };
    moved().map_err(|error| Error::system(place.display().to_string(), error))
}

/// A kernel from the cache; `None` if it is not there, or was made for other modules.
///
/// # Errors
/// If a file is not what was written.
fn load(place: &Path) -> Result<Option<Kernel>> {
    let Ok(text) = fs::read(place.join(MANIFEST)) else { return Ok(None) };
    let Ok(manifest) = serde_json::from_slice::<Manifest>(&text) else { return Ok(None) };
    if manifest.wanted != wanted_names() {
        return Ok(None);
    }
    let image = place.join(IMAGE);
    checked(&image, &manifest.image_sha256)?;
    let module = |(name, sha256): &(String, String)| {
        let bytes = checked(&place.join(format!("{name}.ko")), sha256)?;
        Ok(Module { name: name.clone(), bytes })
    };
    let modules = manifest.modules.iter().map(module).collect::<Result<_>>()?;
    Ok(Some(Kernel { release: manifest.release, origin: manifest.origin, image, modules }))
}

fn checked(path: &Path, sha256: &str) -> Result<Vec<u8>> {
    let bytes = files::read(path)?;
    if files::sha256(&bytes) == sha256 {
        return Ok(bytes);
    }
    let folder = path.parent().unwrap_or(path);
    Err(Error::failed(path.display().to_string(), "it is not what was stored (its SHA-256 differs)")
        .remedy(format!("remove {}, and it is fetched again", folder.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_kernel_is_checked_when_it_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        fs::write(&image, b"an image").unwrap();
        let module = Module { name: "nvme".into(), bytes: b"a module".into() };
        let kernel =
            Kernel { release: "6.1.0".into(), origin: "Debian's".into(), image, modules: vec![module.clone()] };
        let place = folder.path().join("kernels/6.1");
        assert!(load(&place).unwrap().is_none());
        keep(&kernel, &place, folder.path()).unwrap();
        let kept = load(&place).unwrap().unwrap();
        assert_eq!((kept.release.as_str(), kept.modules), ("6.1.0", vec![module]));
        fs::write(place.join("nvme.ko"), b"a modulE").unwrap();
        let error = load(&place).unwrap_err();
        assert!(error.to_string().contains("SHA-256 differs); remove "), "{error}");
    }
}
