//! Whether the machine runs exactly the files of its image. Differences count only if the configuration
//! requires this, because there may be a good reason for an added file.

use crate::suite::{Group, Test};
use machine::image::{ExamineError, Examined, IDENTITY_FILE, document, examine};
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::test;
use report::Level;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::IMAGE,
    title: "Golden image",
    proves: "every file of the image is as its build listed it, and there are no other files",
    level: Level::Full,
    // 270 MB are hashed: this takes seconds, a minute under emulation.
    deadline: Duration::from_secs(300),
    mandatory: false,
    group: Group::Host,
    run: |context| {
        context.doing("hashing the files of the image");
        Ok(judge(context.config.expect.golden, &examine(&context.root)))
    },
};

fn judge(expected: bool, seen: &Result<Option<Examined>, ExamineError>) -> Judgement {
    match seen {
        Err(why) => Judgement::by(Code::SysUnreadable.finding(
            Severity::Error,
            Subject::part("image"),
            why.to_string(),
        )),
        Ok(None) if expected => {
            let message = format!("expect.golden = true, but there is no {IDENTITY_FILE}");
            Judgement::by(Code::ImageNone.finding(Severity::Fail, Subject::part("image"), message))
        }
        Ok(None) => Judgement::not_applicable("this is not an image of firstlight"),
        Ok(Some(image)) if image.is_golden() => Judgement::of(image.to_string(), Vec::new()),
        Ok(Some(image)) if expected => {
            Judgement::of(image.to_string(), vec![changed(image, Severity::Fail)])
        }
        Ok(Some(image)) => {
            let changes = vec![changed(image, Severity::Info)];
            Judgement::not_applicable(format!("{image}; expect.golden is not set")).with(changes)
        }
    }
}

fn changed(image: &Examined, severity: Severity) -> Finding {
    let shown = image.differences.iter().take(document::SHOWN);
    let seen = shown
        .map(|d| format!("{}: {}", d.change.word(), document::worded(d)))
        .collect();
    Code::ImageChanged
        .finding(severity, Subject::part("image"), image.to_string())
        .values(image.differences.len(), 0, Some("files"))
        .seen_all(seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::host::identity::Appliance;
    use machine::image::compare::Difference;
    use machine::image::driver::DriverImage;
    use outcome::Outcome;

    fn image(differences: Vec<Difference>) -> Result<Option<Examined>, ExamineError> {
        let appliance = Appliance {
            version: "1".into(),
            image_id: Some("abc".into()),
            manifest_sha256: Some("0".into()),
        };
        Ok(Some(Examined {
            appliance,
            listed: 3,
            bytes: 9,
            driver: DriverImage::None,
            differences,
        }))
    }

    fn added() -> Result<Option<Examined>, ExamineError> {
        image(vec![Difference::added("/etc/x", "a file")])
    }

    #[test]
    fn a_golden_image_passes_whether_or_not_it_is_expected() {
        for expected in [false, true] {
            let said = judge(expected, &image(vec![]));
            assert_eq!(
                said,
                Judgement::of("golden: 3 files as listed, image abc", vec![])
            );
        }
    }

    #[test]
    fn a_changed_image_fails_where_a_golden_one_is_expected_and_is_reported_elsewhere() {
        let said = judge(true, &added());
        assert_eq!(
            (said.outcome(), said.summary.as_str()),
            (Outcome::Fail, "not golden: 1 added of image abc's 3 files")
        );
        assert_eq!(said.findings[0].evidence, ["added: /etc/x: found a file"]);
        let said = judge(false, &added());
        assert_eq!(
            (said.outcome(), said.findings[0].severity),
            (Outcome::NotApplicable, Severity::Info)
        );
        assert!(said.findings[0].is(Code::ImageChanged));
    }

    #[test]
    fn a_machine_without_an_image_fails_only_where_one_is_expected() {
        assert_eq!(judge(false, &Ok(None)).outcome(), Outcome::NotApplicable);
        let said = judge(true, &Ok(None));
        assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::ImageNone));
    }

    #[test]
    fn an_unreadable_image_is_an_error_either_way() {
        for expected in [false, true] {
            let why = ExamineError::Invalid {
                path: "/x".into(),
                why: "y".into(),
            };
            assert_eq!(judge(expected, &Err(why)).outcome(), Outcome::Error);
        }
    }
}
