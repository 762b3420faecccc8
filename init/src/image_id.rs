//! The image's own version and id, on the first line of the console, so that a photograph of a screen shows
//! which image runs. The validator checks whether the image really is the one that it claims to be.

use crate::file_io::read_at_most;
use serde::Deserialize;
use std::io;
use std::path::Path;

/// The file has three short values.
const LARGEST: u64 = 64 << 10;

/// The values that init shows; the validator reads the rest.
#[derive(Deserialize)]
struct Stated {
    version: String,
    image_id: Option<String>,
}

/// `image 0.1.0 5f1d989d03a878d8`, or why it is not known; at most 56 columns. The validator reports the
/// details.
#[must_use]
pub(crate) fn stated(file: &Path) -> String {
    let why = match read_at_most(file, LARGEST).map(|bytes| serde_json::from_slice(&bytes)) {
        Ok(Ok(Stated { version, image_id })) => {
            let id = image_id.unwrap_or_else(|| "without-an-id".to_owned());
            return format!("image {} {}", printable(&version, 16), printable(&id, 32));
        }
        Ok(Err(_)) => "is invalid",
        Err(e) if e.kind() == io::ErrorKind::NotFound => "is not there",
        Err(_) => "cannot be read",
    };
    format!("image not known: image.json {why}")
}

/// The image's id as marks have it; `None` when the image states none.
#[must_use]
pub(crate) fn id(file: &Path) -> Option<String> {
    let bytes = read_at_most(file, LARGEST).ok()?;
    let stated: Stated = serde_json::from_slice(&bytes).ok()?;
    stated
        .image_id
        .filter(|id| !id.is_empty())
        .map(|id| contract::mark::sanitize(&id))
}

/// Keeps printable characters, at most `most` of them.
fn printable(text: &str, most: usize) -> String {
    text.chars()
        .filter(char::is_ascii_graphic)
        .take(most)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::files;

    fn said(text: &str) -> String {
        let dir = files(&[("image.json", text)]);
        stated(&dir.path().join("image.json"))
    }

    #[test]
    fn version_and_id_are_shown_and_nothing_else() {
        let json =
            r#"{ "version": "0.1.0", "image_id": "5f1d989d03a878d8", "manifest_sha256": "00" }"#;
        assert_eq!(said(json), "image 0.1.0 5f1d989d03a878d8");
        assert_eq!(
            said("{ \"version\": \"1\\n\\u001b[2J\", \"image_id\": \"a b\" }"),
            "image 1[2J ab"
        );
        let long = "x".repeat(99);
        assert!(
            said(&format!(
                r#"{{ "version": "{long}", "image_id": "{long}" }}"#
            ))
            .len()
                <= 56
        );
    }

    #[test]
    fn an_image_that_does_not_name_itself_is_reported() {
        assert_eq!(said("{"), "image not known: image.json is invalid");
        assert_eq!(
            stated(Path::new("/none")),
            "image not known: image.json is not there"
        );
    }
}
