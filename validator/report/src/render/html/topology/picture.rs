//! Draws the topology: boxes for NUMA nodes, ports and ends, links between them, and lines between pairs with findings.

use super::{ARCS, BOX, END, Node, PORT, ROW, SOCKET, TopologyDrawing, gap};
use crate::gpus_of;
use crate::render::element::{Element, element};
use crate::render::html::frame::{coordinate, label, line, rectangle, shape};
use crate::render::words;
use machine::GpuId;
use machine::pcie::model::{Device, Fabric, Kind, Link};
use outcome::finding::Severity;
use outcome::platform::Pair;

/// The room beside a box's text, and the height of its lines.
const INSET: f64 = 5.0;
const LINES: f64 = 13.0;
/// How wide small letters are that are not bold, compared with bold ones.
const NARROWER: f64 = 0.86;
/// The most characters of a model in a box; the description has all of them.
const MAX_MODEL: usize = 22;

/// How wide a letter is at most in the bold of usual fonts.
const fn width_of(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | 't' | 'r' | 'f' | ' ' | '.' | ',' | ':' | '-' | '(' | ')' => 5.0,
        'A'..='Z' | 'm' | 'w' => 9.0,
        _ => 7.4,
    }
}

/// A GPU's model without its maker, cut to the box: `GeForce RTX 4090`.
fn short_model(model: &str) -> String {
    let model = model.strip_prefix("NVIDIA ").unwrap_or(model);
    if model.chars().count() <= MAX_MODEL {
        return model.to_owned();
    }
    model
        .chars()
        .take(MAX_MODEL - 2)
        .chain("..".chars())
        .collect()
}

/// The PCIe generation of a rate in GT/s.
fn generation(gts: f64) -> Option<u8> {
    let rates = [2.5, 5.0, 8.0, 16.0, 32.0, 64.0];
    (1..)
        .zip(rates)
        .find(|(_, rate)| (rate - gts).abs() < 0.01)
        .map(|(n, _)| n)
}

fn link_labels(link: &Link) -> (String, String, bool) {
    let word =
        |gts: f64| generation(gts).map_or_else(|| format!("{gts:.0} GT/s"), |n| format!("Gen{n}"));
    let slow = link.gts < link.max_gts;
    let narrow = link.width < link.max_width;
    let most = generation(link.max_gts).map_or_else(String::new, |n| format!(" of {n}"));
    let speed = if slow {
        format!("{}{most}", word(link.gts))
    } else {
        word(link.gts)
    };
    let lanes = if narrow {
        format!("x{} of {}", link.width, link.max_width)
    } else {
        format!("x{}", link.width)
    };
    (
        if link.width == 0 {
            "down".to_owned()
        } else {
            speed
        },
        lanes,
        narrow,
    )
}

impl TopologyDrawing<'_> {
    pub(super) fn draw_socket(&mut self, numa: Option<u32>, nodes: &[Node<'_>]) {
        let top = self.y;
        for node in nodes {
            let middle = self.draw_node(node, SOCKET + 12.0, numa);
            self.parts
                .push(line((SOCKET, middle), (SOCKET + 12.0, middle), "link"));
        }
        let height = self.y - top - (ROW - BOX);
        self.parts
            .push(rectangle(0.0, top, SOCKET, height, "socket"));
        // The box of a single row has room for two digits.
        let name = numa.map_or_else(|| "CPU".to_owned(), |n| format!("NUMA {n}"));
        let (x, y) = (SOCKET / 2.0 + 4.0, top + height / 2.0);
        let turned = format!("rotate(-90 {} {})", coordinate(x), coordinate(y));
        self.parts.push(
            label(x, y, "small", &name)
                .with("text-anchor", "middle")
                .with("transform", &turned),
        );
        self.y += 6.0;
    }

    /// Draws a function and everything below it, with its left edge at `x`; returns the height of its middle.
    fn draw_node(&mut self, node: &Node<'_>, x: f64, numa: Option<u32>) -> f64 {
        let device = node.device;
        if self.ends.contains(&device.bdf) {
            return self.draw_endpoint(device, numa);
        }
        let next = x + PORT + gap(device);
        let below: Vec<_> = node
            .below
            .iter()
            .map(|child| (child, self.draw_node(child, next, numa)))
            .collect();
        let middles = || below.iter().map(|(_, middle)| *middle);
        let middle = middles()
            .reduce(f64::min)
            .unwrap_or(self.y)
            .midpoint(middles().reduce(f64::max).unwrap_or(self.y));
        for (child, at) in below {
            self.draw_link(child.device, (x + PORT, middle), at, next);
        }
        let words = match device.kind {
            Kind::RootPort => "root port",
            Kind::Upstream => "switch",
            Kind::Downstream => "switch port",
            _ => "bridge",
        };
        let acs = if self.acs.contains(&device.bdf.to_string()) {
            Some("ACS cleared".to_owned())
        } else {
            let bits = device
                .acs
                .iter()
                .flat_map(|acs| &acs.enabled)
                .filter(|bit| ["RR", "CR", "EC"].contains(&bit.as_str()));
            let bits: Vec<_> = bits.map(String::as_str).collect();
            (!bits.is_empty()).then(|| format!("ACS {}", bits.join(" ")))
        };
        let class = if acs.is_some() { "port acs" } else { "port" };
        let address = device.bdf.to_string();
        // A port has no room for the domain that nearly all machines have.
        let address = address.strip_prefix("0000:").unwrap_or(&address).to_owned();
        self.draw_box(
            (x, middle),
            PORT,
            class,
            (words, &[address]),
            acs.as_deref(),
        );
        middle
    }

    /// A GPU or NIC, in its own row.
    fn draw_endpoint(&mut self, device: &Device, numa: Option<u32>) -> f64 {
        let middle = self.y + BOX / 2.0;
        self.y += ROW;
        self.middle.insert(device.bdf, middle);
        let slot = words::slot(self.report, device.bdf)
            .map(|slot| format!(", slot {slot}"))
            .unwrap_or_default();
        let gpu = self
            .report
            .gpus
            .iter()
            .position(|gpu| gpu.bdf == device.bdf)
            .map(GpuId::new);
        let (name, code) = match gpu {
            Some(number) => (format!("GPU {number}{slot}"), self.worst_finding(number)),
            None => (
                format!("{}{slot}", nic(self.report.fabric.as_ref(), device)),
                None,
            ),
        };
        let model = gpu
            .filter(|_| self.mixed)
            .and_then(|number| self.report.gpus.get(number.index()));
        let model = model.map(|gpu| words::model(self.report, gpu));
        let class = match (&code, gpu) {
            (Some((_, severity)), _) if *severity >= Severity::Fail => "end bad",
            (Some(_), _) => "end warn",
            (None, Some(_)) => "end",
            (None, None) => "end nic",
        };
        let link = device
            .link
            .as_ref()
            .map(link_labels)
            .map(|(speed, lanes, _)| format!(", {speed} {lanes}"));
        let numa = numa.map(|n| format!(", NUMA {n}")).unwrap_or_default();
        let is = model.map(|model| format!(", {model}")).unwrap_or_default();
        self.summary.push(format!(
            "{name} at {}{is}{}{numa}",
            device.bdf,
            link.unwrap_or_default()
        ));
        let small = [Some(device.bdf.to_string()), model.map(short_model)];
        let small: Vec<_> = small.into_iter().flatten().collect();
        self.draw_box(
            (self.right, middle),
            END,
            class,
            (&name, &small),
            code.as_ref().map(|(code, _)| code.as_str()),
        );
        middle
    }

    /// Code and severity of the worst finding about a GPU or one of its pairs.
    fn worst_finding(&self, gpu: GpuId) -> Option<(String, Severity)> {
        let findings = self.report.tests.iter().flat_map(|test| &test.findings);
        let about = findings.filter(|f| {
            f.severity > Severity::Info && gpus_of(f.about(), self.report).contains(&gpu)
        });
        let about = about
            .rev()
            .max_by_key(|f| f.severity)
            .map(|f| (f.code.clone(), f.severity));
        let pairs = self
            .bad
            .iter()
            .filter(|(pair, _)| pair.from == gpu || pair.to == gpu);
        let pair = pairs
            .rev()
            .max_by_key(|(_, (severity, _))| *severity)
            .map(|(_, (severity, code))| (code.clone(), *severity));
        about
            .into_iter()
            .chain(pair)
            .reduce(|one, other| if other.1 > one.1 { other } else { one })
    }

    /// A box with its name, smaller lines below it, and a last line that stands out.
    fn draw_box(
        &mut self,
        (x, middle): (f64, f64),
        width: f64,
        class: &str,
        (name, small): (&str, &[String]),
        last: Option<&str>,
    ) {
        self.parts
            .push(rectangle(x, middle - BOX / 2.0, width, BOX, class));
        let small = small.iter().map(|text| ("small", text.as_str()));
        let lines = [("name", name)]
            .into_iter()
            .chain(small)
            .chain(last.map(|text| ("small strong", text)));
        let lines: Vec<_> = lines.collect();
        let room = width - 2.0 * INSET;
        // The baseline of the first line, so that all lines together are in the middle.
        let mut y = middle + LINES / 2.0 - 3.0;
        for _ in 1..lines.len() {
            y -= LINES / 2.0;
        }
        for (class, text) in lines {
            let part = label(x + INSET, y, class, text);
            y += LINES;
            // Fonts differ in width: what could be too wide is made as wide as the box.
            let letters: f64 = text.chars().map(width_of).sum();
            let wide = if class == "small" {
                letters * NARROWER
            } else {
                letters
            };
            let fitted = |part: Element| {
                part.with("textLength", &coordinate(room))
                    .with("lengthAdjust", "spacingAndGlyphs")
            };
            self.parts
                .push(if wide > room { fitted(part) } else { part });
        }
    }

    /// A link from a port to what is below it, with its generation above and its lanes below the line.
    fn draw_link(&mut self, device: &Device, from: (f64, f64), at: f64, next: f64) {
        let end = if self.ends.contains(&device.bdf) {
            self.right
        } else {
            next
        };
        let bend = from.0 + 3.0;
        let rate = device
            .link
            .as_ref()
            .filter(|_| end - from.0 > 20.0)
            .map(link_labels);
        let class = if rate.as_ref().is_some_and(|(_, _, narrow)| *narrow) {
            "link warn"
        } else {
            "link"
        };
        self.parts.push(line(from, (bend, from.1), class));
        self.parts.push(line((bend, from.1), (bend, at), class));
        self.parts.push(line((bend, at), (end, at), class));
        let Some((speed, lanes, _)) = rate else {
            return;
        };
        self.parts
            .push(label(bend + 4.0, at - 4.0, "small", &speed));
        self.parts
            .push(label(bend + 4.0, at + 12.0, "small", &lanes));
        let gpu = self
            .report
            .gpus
            .iter()
            .position(|gpu| gpu.bdf == device.bdf)
            .map(GpuId::new);
        if let Some(loaded) = gpu.and_then(|gpu| self.lanes.get(&gpu)) {
            self.parts.push(label(
                bend + 4.0,
                at + 23.0,
                "small",
                &format!("x{loaded} load"),
            ));
        }
    }

    /// Draws a line between the GPUs of each pair with findings.
    pub(super) fn draw_pairs(&mut self) {
        for (Pair { from: a, to: b }, (severity, code)) in &self.bad {
            let middle = |gpu: &GpuId| {
                self.middle
                    .get(&self.report.gpus.get(gpu.index())?.bdf)
                    .copied()
            };
            let (Some(from), Some(to)) = (middle(a), middle(b)) else {
                continue;
            };
            let (x, out) = (
                self.right + END,
                self.right + END + ((to - from).abs() / 5.0 + 14.0).min(ARCS * 1.25),
            );
            let class = if *severity >= Severity::Fail {
                "arc bad"
            } else {
                "arc warn"
            };
            let [x, from, to, out] = [x, from, to, out].map(coordinate);
            let path = format!("M{x} {from} C{out} {from} {out} {to} {x} {to}");
            self.parts
                .push(element("path").with("class", class).with("d", &path));
            let ends = [from, to].map(|y| y.parse().unwrap_or_default());
            let dot = |y: f64| {
                shape("circle", [("cx", self.right + END), ("cy", y), ("r", 3.0)])
                    .with("class", &class.replace("arc", "dot"))
            };
            self.parts.extend(ends.map(dot));
            self.summary.push(format!("GPU {a} and GPU {b}: {code}"));
        }
    }
}

/// The name of a NIC, with that of its RDMA device if there is one.
fn nic<F>(fabric: Option<&Fabric<F>>, device: &Device) -> String {
    let rdma = fabric.and_then(|fabric| fabric.rdma.iter().find(|rdma| rdma.bdf == device.bdf));
    rdma.map_or_else(|| "NIC".to_owned(), |rdma| format!("NIC {}", rdma.name))
}
