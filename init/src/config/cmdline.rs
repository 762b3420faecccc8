//! Parses the kernel's command line as the kernel itself does (`next_arg()` in lib/cmdline.c): blanks
//! separate words except between double quotes, and quotes around a word or a value are not part of it.
//! What a word means is decided elsewhere.

/// One word of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelWord {
    /// The text before the first `=`, or the whole word.
    pub name: String,
    /// The text after the first `=`, without quotes around it; `None` when there is no `=`.
    pub value: Option<String>,
}

impl KernelWord {
    /// Parses one word that is already separated from the others.
    fn new(raw: &str) -> Self {
        let quoted = raw.strip_prefix('"');
        let body = quoted.unwrap_or(raw);
        // As in the kernel, an `=` at the first position does not start a value.
        let cut = body.bytes().skip(1).position(|byte| byte == b'=');
        let split = cut.and_then(|at| Some((body.get(..=at)?, body.get(at + 2..)?)));
        let Some((name, value)) = split else {
            return Self {
                name: unquote_end(body, quoted.is_some()).to_owned(),
                value: None,
            };
        };
        let inner = value.strip_prefix('"');
        let value = unquote_end(inner.unwrap_or(value), inner.is_some() || quoted.is_some());
        Self {
            name: name.to_owned(),
            value: Some(value.to_owned()),
        }
    }
}

/// Removes a closing quote if there was an opening one.
fn unquote_end(text: &str, opened: bool) -> &str {
    if opened {
        text.strip_suffix('"').unwrap_or(text)
    } else {
        text
    }
}

/// All words of a command line, in order.
#[must_use]
pub fn words(line: &str) -> Vec<KernelWord> {
    let mut in_quotes = false;
    line.split(|c: char| {
        if c == '"' {
            in_quotes = !in_quotes;
        }
        c.is_ascii_whitespace() && !in_quotes
    })
    .filter(|raw| !raw.is_empty())
    .map(KernelWord::new)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Vec<(String, Option<String>)> {
        words(line).into_iter().map(|w| (w.name, w.value)).collect()
    }

    fn pair(name: &str, value: Option<&str>) -> (String, Option<String>) {
        (name.to_owned(), value.map(str::to_owned))
    }

    #[test]
    fn words_are_separated_by_any_number_of_blanks() {
        assert_eq!(
            read("  quiet \t console=ttyS0,115200\n"),
            [pair("quiet", None), pair("console", Some("ttyS0,115200"))]
        );
    }

    #[test]
    fn quotes_around_a_value_or_a_whole_word_are_not_part_of_it() {
        assert_eq!(read("a=\"b c\""), [pair("a", Some("b c"))]);
        assert_eq!(
            read("\"a=b c\" d"),
            [pair("a", Some("b c")), pair("d", None)]
        );
        assert_eq!(read("\"a b\""), [pair("a b", None)]);
    }

    #[test]
    fn quotes_inside_a_value_stay_as_in_the_kernel() {
        assert_eq!(read("a=b\"c d\"e"), [pair("a", Some("b\"c d\"e"))]);
    }

    #[test]
    fn only_the_first_equals_sign_separates() {
        assert_eq!(read("p=NVreg_X=1"), [pair("p", Some("NVreg_X=1"))]);
        assert_eq!(read("=x"), [pair("=x", None)]);
        assert_eq!(read("x="), [pair("x", Some(""))]);
    }

    #[test]
    fn an_unclosed_quote_runs_to_the_end() {
        assert_eq!(read("a=\"b c"), [pair("a", Some("b c"))]);
    }
}
