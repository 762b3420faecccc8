//! Elements of XML and HTML as a tree. Every element is closed and every text of a report is escaped when it
//! is written; there is no other way to write one.

use outcome::text::is_invisible;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};
use std::io;

/// An element with its content.
#[derive(Debug)]
pub struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    content: Vec<Content>,
}

#[derive(Debug)]
enum Content {
    Element(Element),
    Text(String),
}

/// An empty element.
#[must_use]
pub const fn element(name: &'static str) -> Element {
    Element {
        name,
        attributes: Vec::new(),
        content: Vec::new(),
    }
}

impl Element {
    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.attributes.push((name, replace_forbidden(value)));
        self
    }

    /// Appends a text.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.content.push(Content::Text(replace_forbidden(text)));
        self
    }

    /// Appends an element.
    #[must_use]
    pub fn child(self, child: Self) -> Self {
        self.children([child])
    }

    /// Appends elements.
    #[must_use]
    pub fn children(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        self.content
            .extend(children.into_iter().map(Content::Element));
        self
    }

    fn write(&self, to: &mut Writer<Vec<u8>>) -> io::Result<()> {
        let attributes = self
            .attributes
            .iter()
            .map(|(name, value)| (*name, value.as_str()));
        let start = BytesStart::new(self.name).with_attributes(attributes);
        // In HTML this is valid for `meta` only; `text("")` in any other element keeps its end tag.
        if self.content.is_empty() {
            return to.write_event(Event::Empty(start));
        }
        to.write_event(Event::Start(start))?;
        for content in &self.content {
            match content {
                Content::Element(element) => element.write(to)?,
                Content::Text(text) => to.write_event(Event::Text(BytesText::new(text)))?,
            }
        }
        to.write_event(Event::End(BytesEnd::new(self.name)))
    }
}

/// Replaces what XML 1.0 forbids, and what nobody sees, with `?`.
fn replace_forbidden(text: &str) -> String {
    let forbidden = |c: char| {
        (is_invisible(c) && !matches!(c, '\n' | '\t')) || matches!(c, '\u{fffe}' | '\u{ffff}')
    };
    text.chars()
        .map(|c| if forbidden(c) { '?' } else { c })
        .collect()
}

/// An XML document.
///
/// # Errors
/// The XML writer's error.
pub fn xml(root: &Element) -> io::Result<String> {
    document(
        Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)),
        root,
    )
}

/// An HTML document, which is also well-formed XML.
///
/// # Errors
/// As [`xml`].
pub fn html(root: &Element) -> io::Result<String> {
    document(Event::DocType(BytesText::new("html")), root)
}

fn document(head: Event<'_>, root: &Element) -> io::Result<String> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 1);
    writer.write_event(head)?;
    root.write(&mut writer)?;
    let text = String::from_utf8(writer.into_inner()).map_err(io::Error::other)?;
    Ok(text + "\n")
}
