//! The line for serial scrapers, in the validator's format, for a verdict that init reached itself. Each
//! value is made one word.

use super::judgement::Judgement;

/// The line; `here` is this machine's name, for verdicts without a report.
#[must_use]
pub(super) fn last_line(judgement: &Judgement, here: &str) -> String {
    let Judgement { verdict, failed, warned, codes, .. } = judgement;
    let scope = judgement.scope.as_deref().unwrap_or("machine");
    let host = judgement.host.as_deref().unwrap_or(here);
    format!(
        "FIRSTLIGHT verdict={verdict} failed={} warned={} codes={} scope={} host={} seconds={:.1}",
        list(failed),
        list(warned),
        list(codes),
        word(scope),
        if host.is_empty() { "unknown".to_owned() } else { word(host) },
        judgement.seconds
    )
}

fn list(words: &[String]) -> String {
    if words.is_empty() {
        return "none".to_owned();
    }
    words.iter().map(|w| word(w)).collect::<Vec<_>>().join(",")
}

fn word(text: &str) -> String {
    let keeps = |c: char| !c.is_control() && !c.is_whitespace() && c != '=';
    text.chars().map(|c| if keeps(c) { c } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_every_value_and_is_one_line() {
        let mut judgement = Judgement::error("config", "why".to_owned(), 0.5);
        let rest = "warned=none codes=none scope=machine host=node7 seconds=0.5";
        assert_eq!(last_line(&judgement, "node7"), format!("FIRSTLIGHT verdict=ERROR failed=config {rest}"));
        (judgement.host, judgement.codes) = (Some("a b\nc=d".to_owned()), vec!["X\rY".to_owned()]);
        let line = last_line(&judgement, "node7");
        assert!(line.ends_with("codes=X?Y scope=machine host=a?b?c?d seconds=0.5"), "{line}");
        assert!(last_line(&Judgement::error("x", String::new(), 0.0), "").contains(" host=unknown "));
    }
}
