//! Selects the outputs so that each line appears once on every physical console: `/dev/console` is another
//! name for one of them, and the configuration may name the same line twice.

/// Keeps the order; of two with the same device number it keeps the first.
#[must_use]
pub fn once_each<T>(there: Vec<T>, number: impl Fn(&T) -> (u32, u32)) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for one in there {
        if kept.iter().all(|other| number(other) != number(&one)) {
            kept.push(one);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(candidates: &[(&'static str, (u32, u32))]) -> Vec<&'static str> {
        once_each(candidates.to_vec(), |c| c.1).into_iter().map(|c| c.0).collect()
    }

    #[test]
    fn the_console_is_dropped_when_the_device_behind_it_is_there() {
        assert_eq!(names(&[("ttyS0", (4, 64)), ("tty0", (4, 1)), ("console", (4, 64))]), ["ttyS0", "tty0"]);
        assert_eq!(names(&[("ttyS0", (4, 64)), ("tty0", (4, 1)), ("console", (4, 1))]), ["ttyS0", "tty0"]);
    }

    #[test]
    fn a_console_that_is_something_else_stays() {
        assert_eq!(names(&[("ttyS0", (4, 64)), ("console", (4, 65))]), ["ttyS0", "console"]);
    }

    #[test]
    fn the_same_line_named_twice_is_used_once() {
        assert_eq!(names(&[("ttyS0", (4, 64)), ("ttyS0", (4, 64))]), ["ttyS0"]);
    }
}
