//! The part of `docs/settings.md` that lists every key: printed from the tables, and compared with the page by the tests of
//! both programs.

use super::AllowedLayers;
use super::table::Key;

/// The page on which all keys are.
pub const PAGE: &str = "docs/settings.md";

/// The column of the sentences.
const COLUMN: usize = 24;

/// One section of the page.
#[derive(Debug, Clone)]
pub struct SectionPage {
    keys: &'static [Key],
    /// Its lines.
    pub text: String,
    /// What is wrong with the table's examples, one line each.
    pub faults: Vec<String>,
}

impl SectionPage {
    /// A section without keys.
    #[must_use]
    pub fn new(name: &str, about: &str, keys: &'static [Key]) -> Self {
        Self {
            keys,
            text: line(&format!("[{name}]"), about.trim()),
            faults: Vec::new(),
        }
    }

    /// Adds a key: its sentence, the allowed values, the value that is shown, and whether a value is the default (`None`: it is
    /// refused).
    pub fn add(
        &mut self,
        key: &str,
        doc: &str,
        hint: String,
        value: Option<String>,
        is_default: impl Fn(&str) -> Option<bool>,
    ) {
        let doc = doc.trim();
        let value = value.unwrap_or_else(|| {
            self.faults.push(format!(
                "{key}: the default has no text form, so the page needs an example"
            ));
            String::new()
        });
        match is_default(&value) {
            Some(true) => {}
            Some(false) if doc.contains("default: ") => {}
            Some(false) => self.faults.push(format!(
                "{key}: {value} is not the default, which the sentence must name"
            )),
            None => self.faults.push(format!("{key}: {value} is refused")),
        }
        let layers = self
            .keys
            .iter()
            .find(|known| known.key == key)
            .map_or(AllowedLayers::Any, |known| known.layers);
        let parts = [hint, doc.to_owned()];
        let mut about = parts
            .iter()
            .filter(|part| !part.is_empty())
            .cloned()
            .collect::<Vec<_>>()
            .join("; ");
        if layers != AllowedLayers::Any {
            about = format!("{about} (only in {})", layers.text());
        }
        self.text += &line(&format!("{key} = {value}"), &about);
    }

    /// Compares the section with the page's text.
    ///
    /// # Errors
    /// The lines that the page must have instead, or what is wrong with the table.
    pub fn compare(&self, page: &str) -> Result<(), String> {
        let head = self.text.split(']').next().unwrap_or_default();
        let block = page
            .split("```toml\n")
            .nth(1)
            .and_then(|rest| rest.split("\n```").next())
            .unwrap_or_default();
        let from = block
            .lines()
            .skip_while(|line| line.split(']').next() != Some(head));
        let own = from
            .enumerate()
            .take_while(|(n, line)| *n == 0 || !line.starts_with('['))
            .map(|(_, line)| line);
        let found: String = own.map(|line| format!("{line}\n")).collect();
        if !self.faults.is_empty() {
            return Err(self.faults.join("\n"));
        }
        if found == self.text {
            Ok(())
        } else {
            Err(format!("{PAGE} must have\n{}and has\n{found}", self.text))
        }
    }
}

fn line(code: &str, about: &str) -> String {
    if about.is_empty() {
        format!("{code}\n")
    } else {
        format!("{code:COLUMN$} # {about}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[Key] = &[Key {
        layers: AllowedLayers::Image,
        ..Key::new("s", "a")
    }];

    fn page(doc: &str, value: &str) -> SectionPage {
        let mut page = SectionPage::new("s", "", KEYS);
        let is_default = |text: &str| text.parse::<u64>().ok().map(|n| n == 1);
        page.add(
            "a",
            doc,
            "1 to 5".to_owned(),
            Some(value.to_owned()),
            is_default,
        );
        page
    }

    #[test]
    fn a_page_that_lists_the_keys_as_the_table_does_is_right() {
        let text = "x\n```toml\n[r]\n[s]\na = 1                    # 1 to 5; how many (only in files of the image)\n[t]\n```\n";
        assert_eq!(page(" how many", "1").compare(text), Ok(()));
        for wrong in [
            text.replace("a = 1", "a = 2"),
            text.replace("[s]", "[u]"),
            text.replace("[t]", "b = 1"),
            String::new(),
        ] {
            assert!(
                page(" how many", "1")
                    .compare(&wrong)
                    .unwrap_err()
                    .contains("must have\n[s]\na = 1 "),
                "{wrong}"
            );
        }
    }

    #[test]
    fn an_example_is_accepted_and_does_not_hide_the_default() {
        assert!(
            page("how many", "2")
                .compare("")
                .unwrap_err()
                .contains("2 is not the default")
        );
        assert!(
            page("default: 1", "x")
                .compare("")
                .unwrap_err()
                .contains("x is refused")
        );
        assert_eq!(page("default: 1", "2").faults, Vec::<String>::new());
    }
}
