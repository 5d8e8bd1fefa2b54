//! What `cargo metadata` says about the workspace.

use std::path::Path;

use serde_json::Value;

use crate::Result;
use crate::steps::cargo;

/// The packages of the workspace.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) packages: Vec<Package>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) examples: Vec<String>,
}

/// An arrow from a package to another.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Whether only tests and examples see it.
    pub(crate) dev: bool,
}

impl Workspace {
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let metadata = ["metadata", "--format-version", "1", "--no-deps"];
        let output = cargo(root).args(metadata).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        Self::parse(&serde_json::from_slice(&output.stdout)?)
            .ok_or_else(|| "cargo metadata has another form than expected".into())
    }

    /// Package and name of each example.
    pub(crate) fn examples(&self) -> impl Iterator<Item = (&str, &str)> {
        let packages = self.packages.iter();
        packages.flat_map(|p| p.examples.iter().map(|example| (&*p.name, &**example)))
    }

    fn parse(metadata: &Value) -> Option<Self> {
        let packages = metadata["packages"].as_array()?.iter().map(Package::parse);
        Some(Self { packages: packages.collect::<Option<_>>()? })
    }
}

impl Package {
    fn parse(package: &Value) -> Option<Self> {
        let dependencies = package["dependencies"].as_array()?.iter().map(|dependency| {
            let name = dependency["name"].as_str()?.to_owned();
            Some(Dependency { name, dev: dependency["kind"] == "dev" })
        });
        let targets = package["targets"].as_array()?.iter();
        let examples = targets.filter(|target| target["kind"][0] == "example");
        Some(Self {
            name: package["name"].as_str()?.to_owned(),
            dependencies: dependencies.collect::<Option<_>>()?,
            examples: examples
                .map(|target| target["name"].as_str().map(str::to_owned))
                .collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn metadata_is_read() {
        let workspace = Workspace::parse(&json!({"packages": [{
            "name": "alkstore-x",
            "dependencies": [
                {"name": "alkstore", "kind": null},
                {"name": "tempfile", "kind": "dev"},
            ],
            "targets": [
                {"name": "alkstore_x", "kind": ["lib"]},
                {"name": "hello", "kind": ["example"]},
            ],
        }]}))
        .unwrap();
        assert_eq!(workspace.examples().collect::<Vec<_>>(), [("alkstore-x", "hello")]);
        let dependencies = &workspace.packages[0].dependencies;
        assert!(dependencies[0].name == "alkstore" && !dependencies[0].dev);
        assert!(dependencies[1].name == "tempfile" && dependencies[1].dev);
        assert!(Workspace::parse(&json!({"packages": [{"name": 1}]})).is_none());
    }
}
