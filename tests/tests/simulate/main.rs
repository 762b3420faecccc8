//! The program on simulated GPUs, on this host: does each scenario and each class of faults get its verdict?
//! Needs cargo alone. `cargo test --test simulate NAME` runs those whose names hold NAME.

mod nodes;
mod recipe;
mod scenarios;
mod verdict;

/// A part of the matrix of faults and healthy machines: each class of faults once, at the lowest level that claims to
/// find it, and the smaller healthy machines. `./run matrix` runs all of it.
mod matrix {
    use harness::matrix::{Chosen, cases, counts, run, table};

    #[test]
    fn of_a_part_of_the_matrix_no_fault_passes_and_no_healthy_machine_fails() {
        let cases = cases(&Chosen { part: true, ..Chosen::default() }).unwrap();
        assert!(cases.len() >= 50, "only {} cases", cases.len());
        let said = run(&cases, 3, |_, _| {});
        let wrong: Vec<_> = said.iter().filter(|said| !said.mark.is_right()).map(|said| &said.text).collect();
        let counts = counts(&said);
        assert!(counts.right(), "{}\n{counts}\n{wrong:#?}", table(&said));
    }
}
