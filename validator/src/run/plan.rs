//! Which tests run: those of the level, fewer by `only` and `skip`. A mandatory test that is left
//! out is remembered, for it costs the verdict. What the configuration expects and only one test can
//! tell makes that test run at every level, and mandatory. Pure.

use crate::config::{Config, Validate};
use crate::suite::{ALL, Test, demanded};

/// What runs and what does not.
#[derive(Debug, Default)]
pub struct Plan {
    /// In the order of the suite.
    pub run: Vec<&'static Test>,
    /// Mandatory tests that were left out, and by what.
    pub left_out: Vec<(&'static Test, &'static str)>,
}

impl Plan {
    /// The tests to run, by group: each group is one worker's.
    #[must_use]
    pub fn groups(&self) -> Vec<Vec<&'static Test>> {
        self.run.chunk_by(|a, b| a.group == b.group).map(<[_]>::to_vec).collect()
    }
}

/// What `validate` asks for.
#[must_use]
pub fn plan(config: &Config) -> Plan {
    among(&config.validate, demanded(&config.expect), |_| true)
}

/// What a command asks for that is about some tests only: the others were never asked for, so
/// nothing is missed when they do not run.
#[must_use]
pub fn selection(asked: &Validate, ids: &[&str]) -> Plan {
    among(asked, &[], |test| ids.contains(&test.id))
}

fn among(asked: &Validate, demanded: &[&str], wanted: impl Fn(&Test) -> bool) -> Plan {
    let mut plan = Plan::default();
    let is_demanded = |test: &Test| demanded.contains(&test.id);
    for test in ALL.iter().copied().filter(|t| (t.level <= asked.level || is_demanded(t)) && wanted(t)) {
        let named = |ids: &[String]| ids.iter().any(|id| id == test.id);
        let left_out = if !asked.only.is_empty() && !named(&asked.only) {
            Some("by --only or validate.only")
        } else if named(&asked.skip) {
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
    use crate::config::Level;
    use crate::suite::{self, Group};

    fn asking(change: impl FnOnce(&mut Validate)) -> Config {
        let mut config = Config::default();
        change(&mut config.validate);
        config
    }

    fn ids(only: &[&str], skip: &[&str]) -> (Vec<&'static str>, Vec<&'static str>) {
        let words = |ids: &[&str]| ids.iter().map(|i| (*i).to_owned()).collect();
        let plan = plan(&asking(|v| (v.only, v.skip) = (words(only), words(skip))));
        (plan.run.iter().map(|t| t.id).collect(), plan.left_out.iter().map(|(t, _)| t.id).collect())
    }

    #[test]
    fn everything_of_the_level_runs_in_the_suites_order() {
        let standard = ALL.iter().filter(|t| t.level <= Level::Standard).map(|t| t.id).collect();
        assert_eq!(ids(&[], &[]), (standard, vec![]));
        let full = plan(&asking(|v| v.level = Level::Full));
        assert_eq!(full.run.iter().map(|t| t.id).collect::<Vec<_>>(), suite::ids());
        let quick = plan(&asking(|v| v.level = Level::Quick));
        assert!(quick.run.iter().all(|t| t.level == Level::Quick) && !quick.run.is_empty());
    }

    #[test]
    fn mandatory_tests_left_out_are_remembered_and_others_are_not() {
        assert_eq!(ids(&[], &["acs", "display"]).1, ["acs"]);
        let (run, left_out) = ids(&["acs", "links"], &["links"]);
        assert_eq!(run, ["acs"]);
        assert!(left_out.contains(&"iommu") && !left_out.contains(&"links"));
    }

    #[test]
    fn a_golden_image_that_is_expected_is_looked_at_at_every_level_and_never_left_out_silently() {
        let mut config = asking(|v| v.level = Level::Quick);
        let runs = |config: &Config| plan(config).run.iter().any(|t| t.id == "image");
        assert!(!runs(&config));
        config.expect.golden = true;
        assert!(runs(&config));
        config.validate.skip = vec!["image".into()];
        assert_eq!(plan(&config).left_out.iter().map(|(t, _)| t.id).collect::<Vec<_>>(), ["image"]);
        config.expect.golden = false;
        assert!(plan(&config).left_out.is_empty());
    }

    #[test]
    fn a_selection_misses_nothing_but_what_is_left_out_of_it() {
        let all = Config::default().validate;
        let plan = selection(&all, &["acs", "links"]);
        assert_eq!((plan.run.len(), plan.left_out.len()), (2, 0));
        let skipping =
            selection(&Validate { skip: vec!["acs".into(), "iommu".into()], ..all }, &["acs", "links"]);
        assert_eq!((skipping.run.len(), skipping.left_out.len()), (1, 1));
    }

    #[test]
    fn a_group_is_one_list() {
        let groups = plan(&Config::default()).groups();
        assert_eq!(groups.iter().map(|g| g[0].group).collect::<Vec<_>>(), [Group::Host, Group::Gpu]);
        assert!(Plan::default().groups().is_empty());
    }
}
