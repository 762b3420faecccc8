//! Runs cases, several at a time.

use super::case::Case;
use super::result::{Mark, Said};
use crate::simgpu::{Judged, validate};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// Has the program judge all cases, `workers` at a time; `told` hears each as it ends. In the cases' order.
pub fn run(cases: &[Case], workers: usize, told: impl Fn(usize, &Said) + Sync) -> Vec<Said> {
    let mut order: Vec<_> = cases.iter().enumerate().collect();
    // Those that wait for a deadline need no processor meanwhile: they come first, and the others beside them.
    order.sort_by_key(|(_, case)| !case.waits());
    let done = AtomicUsize::new(0);
    let mut all = at_a_time(workers, &order, |(nth, case)| {
        let said = judge(case);
        told(done.fetch_add(1, Ordering::Relaxed) + 1, &said);
        (*nth, said)
    });
    all.sort_by_key(|(nth, _)| *nth);
    all.into_iter().map(|(_, said)| said).collect()
}

/// Does the same with each item, with `workers` at a time, and returns the results in the order in which they came.
pub fn at_a_time<T: Sync, R: Send>(workers: usize, items: &[T], one: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = one(item);
            all.lock().expect("no worker panics with it").push(result);
        }
    };
    thread::scope(|scope| (0..workers.max(1)).for_each(|_| drop(scope.spawn(work))));
    all.into_inner().expect("no worker panicked with it")
}

fn judge(case: &Case) -> Said {
    let began = Instant::now();
    let words = case.words();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let judged = case.scenario().and_then(|scenario| validate(&scenario, &words));
    let seconds = began.elapsed().as_secs_f64();
    match judged {
        Ok(judged) => said(case, &judged, seconds),
        Err(why) => {
            let (verdict, text) = ("none".to_owned(), why.told());
            Said { case: case.clone(), verdict, blamed: Vec::new(), text, seconds, mark: Mark::Broken }
        }
    }
}

fn said(case: &Case, judged: &Judged, seconds: f64) -> Said {
    let blamed: Vec<_> = judged.fails().into_iter().map(str::to_owned).collect();
    let mark = Mark::of(case, judged.verdict(), &blamed);
    let text = format!("{}\n{}", judged.text, judged.log);
    Said { case: case.clone(), verdict: judged.verdict().to_owned(), blamed, text, seconds, mark }
}
