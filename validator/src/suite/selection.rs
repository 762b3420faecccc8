//! Which tests run: those of the level, or those that `only` names, whatever their level, less those that
//! `skip` names and those outside the scope. A mandatory test that is left out is recorded, because the
//! verdict is ERROR without it. Where the configuration expects something that only one test can judge, that test runs at
//! every level and is mandatory. Some GPUs need a test at every level. Pure.

use super::{ALL, Group, Test, demanded, needed_by};
use crate::config::{Config, Level, Validate};
use machine::pcie::model::Fabric;
use outcome::scope::Scope;

/// Which tests run and which do not.
#[derive(Debug, Default)]
pub struct TestPlan {
    /// The scope of the verdict.
    pub scope: Scope,
    /// In the order of the suite.
    pub run: Vec<&'static Test>,
    /// Mandatory tests that were left out, and by what.
    pub left_out: Vec<(&'static Test, &'static str)>,
}

impl TestPlan {
    /// The tests to run, by thoroughness: each list is one worker's. A test that is requested by
    /// name is as thorough as its own level, the others as the requested level.
    #[must_use]
    pub fn by_level(&self, asked: &Validate) -> Vec<(Level, Vec<&'static Test>)> {
        let level = |test: &Test| {
            let named = asked.only.iter().any(|id| id == test.id());
            if named {
                asked.level.max(test.level)
            } else {
                asked.level
            }
        };
        let alike = self.run.chunk_by(|a, b| level(a) == level(b));
        alike
            .filter_map(|tests| Some((level(tests.first()?), tests.to_vec())))
            .collect()
    }
}

/// The tests that `validate` runs; `fabric` is `None` if it cannot be read, which is a finding of a test.
#[must_use]
pub fn plan(config: &Config, fabric: Option<&Fabric>) -> TestPlan {
    let (asked, demanded) = (&config.validate, demanded(&config.expect));
    let needed = fabric.map_or(&[][..], needed_by);
    match &asked.scope {
        Scope::Machine | Scope::Gpus(_) => TestPlan {
            scope: asked.scope.clone(),
            ..among(asked, demanded, needed, |_| true)
        },
        Scope::Fabric => TestPlan {
            scope: Scope::Fabric,
            ..among(asked, demanded, &[], |test| test.group == Group::Host)
        },
        Scope::Only(ids) => selection(asked, &ids.iter().map(String::as_str).collect::<Vec<_>>()),
    }
}

/// The tests of a command that is about some tests only: the others were never requested, so nothing is
/// missing when they do not run.
#[must_use]
pub fn selection(asked: &Validate, ids: &[&str]) -> TestPlan {
    let mut plan = among(asked, &[], &[], |test| ids.contains(&test.id()));
    let due = plan
        .run
        .iter()
        .chain(plan.left_out.iter().map(|(test, _)| test));
    plan.scope = Scope::Only(due.map(|test| test.id().to_owned()).collect());
    plan
}

fn among(
    asked: &Validate,
    demanded: &[&str],
    needed: &[&str],
    wanted: impl Fn(&Test) -> bool,
) -> TestPlan {
    let mut plan = TestPlan::default();
    let is_demanded = |test: &Test| demanded.contains(&test.id());
    let named = |test: &Test, ids: &[String]| ids.iter().any(|id| id == test.id());
    let is_due =
        |test: &Test| is_demanded(test) || needed.contains(&test.id()) || named(test, &asked.only);
    let due = |test: &Test| test.level <= asked.level || is_due(test);
    for test in ALL.iter().copied().filter(|test| due(test) && wanted(test)) {
        let left_out = if !asked.only.is_empty() && !named(test, &asked.only) {
            Some("by --only or validate.only")
        } else if named(test, &asked.skip) {
            Some("by --skip or validate.skip")
        } else {
            None
        };
        match left_out {
            None => plan.run.push(test),
            Some(why) if test.mandatory || is_demanded(test) => plan.left_out.push((test, why)),
            Some(_) => {}
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite;
    use crate::suite::shared::fixture;

    fn asking(change: impl FnOnce(&mut Validate)) -> Config {
        let mut config = Config::default();
        change(&mut config.validate);
        config
    }

    fn ids(only: &[&str], skip: &[&str]) -> (Vec<&'static str>, Vec<&'static str>) {
        let words = |ids: &[&str]| ids.iter().map(|i| (*i).to_owned()).collect();
        let plan = plan(
            &asking(|v| (v.only, v.skip) = (words(only), words(skip))),
            None,
        );
        (
            plan.run.iter().map(|t| t.id()).collect(),
            plan.left_out.iter().map(|(t, _)| t.id()).collect(),
        )
    }

    #[test]
    fn all_tests_of_the_level_run_in_suite_order() {
        let standard = ALL
            .iter()
            .filter(|t| t.level <= Level::Standard)
            .map(|t| t.id())
            .collect();
        assert_eq!(ids(&[], &[]), (standard, vec![]));
        let full = plan(&asking(|v| v.level = Level::Acceptance), None);
        assert_eq!(
            full.run.iter().map(|t| t.id()).collect::<Vec<_>>(),
            suite::ids()
        );
        let quick = plan(&asking(|v| v.level = Level::Quick), None);
        assert!(quick.run.iter().all(|t| t.level == Level::Quick) && !quick.run.is_empty());
    }

    #[test]
    fn mandatory_tests_left_out_are_recorded_and_others_are_not() {
        assert_eq!(ids(&[], &["acs", "display"]).1, ["acs"]);
        let (run, left_out) = ids(&["acs", "links"], &["links"]);
        assert_eq!(run, ["acs"]);
        assert!(left_out.contains(&"iommu") && !left_out.contains(&"links"));
    }

    #[test]
    fn a_test_requested_by_name_runs_at_every_level() {
        for level in [Level::Quick, Level::Standard, Level::Full] {
            for test in ALL {
                let plan = plan(
                    &asking(|v| (v.level, v.only) = (level, vec![test.id().into()])),
                    None,
                );
                assert_eq!(
                    plan.run.iter().map(|t| t.id()).collect::<Vec<_>>(),
                    [test.id()],
                    "{level}"
                );
            }
        }
        let skipped = asking(|v| {
            (v.level, v.only, v.skip) = (
                Level::Quick,
                vec!["p2p-soak".into()],
                vec!["p2p-soak".into()],
            );
        });
        assert!(plan(&skipped, None).run.is_empty());
    }

    #[test]
    fn an_expected_golden_image_is_checked_at_every_level_and_never_left_out_silently() {
        let mut config = asking(|v| v.level = Level::Quick);
        let runs = |config: &Config| plan(config, None).run.iter().any(|t| t.id() == "image");
        assert!(!runs(&config));
        config.expect.golden = true;
        assert!(runs(&config));
        config.validate.skip = vec!["image".into()];
        assert_eq!(
            plan(&config, None)
                .left_out
                .iter()
                .map(|(t, _)| t.id())
                .collect::<Vec<_>>(),
            ["image"]
        );
        config.expect.golden = false;
        assert!(plan(&config, None).left_out.is_empty());
    }

    #[test]
    fn geforce_rtx_30_get_the_frameworks_all_reduce_at_every_level() {
        let machine = |devices: &[&str]| {
            let mut fabric = fixture::machine(devices.len().try_into().unwrap());
            for (gpu, device) in fabric.gpus.clone().into_iter().zip(devices) {
                fixture::device(&mut fabric, gpu).device = (*device).into();
            }
            fabric
        };
        let runs = |devices: &[&str], change: fn(&mut Validate)| {
            let mut config = asking(|v| v.level = Level::Quick);
            change(&mut config.validate);
            plan(&config, Some(&machine(devices)))
                .run
                .iter()
                .any(|t| t.id() == "p2p-allreduce")
        };
        assert!(
            runs(&["0x2204", "0x2203"], |_| ()) && runs(&["0x2684", "0x2204", "0x2503"], |_| ())
        );
        for others in [
            &["0x2684", "0x2684"][..],
            &["0x2204"],
            &["0x2204", "0x2684"],
            &["0x2230", "0x2230"],
        ] {
            assert!(!runs(others, |_| ()), "{others:?}");
        }
        let pair = &["0x2204", "0x2204"];
        assert!(!runs(pair, |v| v.skip = vec!["p2p-allreduce".into()]));
        assert!(!runs(pair, |v| v.only = vec!["acs".into()]));
        assert!(!runs(pair, |v| v.scope = Scope::Fabric));
    }

    #[test]
    fn a_selection_misses_only_what_is_left_out_of_it() {
        let all = Config::default().validate;
        let plan = selection(&all, &["acs", "links"]);
        assert_eq!((plan.run.len(), plan.left_out.len()), (2, 0));
        let skipping = selection(
            &Validate {
                skip: vec!["acs".into(), "iommu".into()],
                ..all
            },
            &["acs", "links"],
        );
        assert_eq!((skipping.run.len(), skipping.left_out.len()), (1, 1));
    }

    #[test]
    fn tests_of_one_level_are_one_list_with_those_that_need_no_driver_first() {
        let asked = Config::default();
        let all = plan(&asked, None);
        let levels = all.by_level(&asked.validate);
        assert_eq!(levels.len(), 1);
        assert_eq!(levels[0].1.len(), all.run.len());
        assert!(
            levels[0]
                .1
                .is_sorted_by_key(|test| test.group == Group::Gpu)
        );
        assert!(TestPlan::default().by_level(&asked.validate).is_empty());
    }

    #[test]
    fn a_test_requested_by_name_is_as_thorough_as_its_own_level_and_the_others_as_the_requested_level()
     {
        let only = ["acs", "image", "cuda", "nccl-types", "p2p-soak"]
            .map(str::to_owned)
            .to_vec();
        let asked = asking(|v| (v.level, v.only) = (Level::Quick, only));
        for (level, tests) in plan(&asked, None).by_level(&asked.validate) {
            assert!(tests.iter().all(|test| test.level == level), "{level}");
        }
        let asked = asking(|v| (v.level, v.only) = (Level::Full, vec!["acs".into()]));
        assert_eq!(
            plan(&asked, None).by_level(&asked.validate)[0].0,
            Level::Full
        );
    }
}
