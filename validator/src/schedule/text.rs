//! A plan as text, in 80 columns: the transfers, why no more run at once, the rounds.

use super::{Pair, Plan, Shared};
use outcome::text::wrapped;
use std::fmt;

/// How many shared resources are named; those shared by fewer pairs cost fewer rounds.
const NAMED: usize = 4;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.ordered {
            "each direction alone"
        } else {
            "both directions at once"
        };
        let (pairs, rounds) = (self.transfers(), self.rounds.len());
        writeln!(
            f,
            "{kind}: {} of {} in {}",
            count(pairs, "pair"),
            count(self.gpus.len(), "GPU"),
            count(rounds, "round")
        )?;
        if pairs > 0 {
            f.write_str(&self.shared_lines())?;
        }
        for group in self
            .rounds
            .chunk_by(|a, b| a.len() == 1 && b.len() == 1)
            .scan(1, numbered)
        {
            f.write_str(&self.line(group))?;
        }
        Ok(())
    }
}

/// Rounds that are printed together: the number of the first, and the rounds.
type Numbered<'a> = (usize, &'a [Vec<Pair>]);

fn numbered<'a>(next: &mut usize, rounds: &'a [Vec<Pair>]) -> Option<Numbered<'a>> {
    let first = *next;
    *next += rounds.len();
    Some((first, rounds))
}

impl Plan {
    /// The resources that keep pairs from running together, a line each.
    fn shared_lines(&self) -> String {
        let mut text = wrapped("  ", "    ", "a GPU takes part in one transfer at a time");
        for shared in self.shared.iter().take(NAMED) {
            text += &wrapped("  ", "    ", &self.sentence(shared));
        }
        match self.shared.len().saturating_sub(NAMED) {
            0 => text,
            more => text + &format!("  and {more} more, each shared by fewer pairs or as many\n"),
        }
    }

    fn sentence(&self, shared: &Shared) -> String {
        let all = self.transfers();
        if shared.pairs == all {
            return format!("all pairs share {}", shared.resource);
        }
        format!("{} of {all} pairs share {}", shared.pairs, shared.resource)
    }

    fn line(&self, (first, rounds): Numbered<'_>) -> String {
        let arrow = if self.ordered { "->" } else { "<->" };
        let pairs: Vec<_> = rounds
            .iter()
            .flatten()
            .map(|p| format!("{}{arrow}{}", p.from, p.to))
            .collect();
        let label = match rounds.len() {
            1 => format!("  round {first:<4} "),
            n => format!("  rounds {first} to {}, one pair each: ", first + n - 1),
        };
        wrapped(&label, &" ".repeat(13), &pairs.join(" "))
    }
}

fn count(n: usize, word: &str) -> String {
    if n == 1 {
        format!("1 {word}")
    } else {
        format!("{n} {word}s")
    }
}
