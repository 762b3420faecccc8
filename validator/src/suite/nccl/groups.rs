//! Which GPUs reach each other: all of them, or on machines with bridges or a partitioned switch only those
//! of a group. In that case each group is proven separately; between groups NCCL may use any transport.

use crate::schedule::Pair;
use crate::suite::TestContext;
use crate::suite::shared::gpu_fault::fault_finding;
use crate::suite::shared::peer_groups;
use gpu::Clique;
use machine::{GpuId, Rank};
use outcome::finding::Finding;
use outcome::metric::Metric;
use outcome::{Matrix, Outcome};

/// The test that has queried each pair's access, and its matrix.
const ACCESS: (&str, Metric) = ("p2p-capability", Metric::ACCESS);

/// All groups, including groups of a single GPU; one group of all GPUs if access does not form groups.
pub(super) fn of(context: &TestContext) -> Result<Vec<Vec<GpuId>>, Box<Finding>> {
    let clique = context.clique()?;
    let known = context
        .matrix(ACCESS.0, ACCESS.1)
        .filter(|_| context.outcome(ACCESS.0) != Some(Outcome::Error));
    let access = known.map_or_else(|| query_access(clique), |known| Ok(known.values))?;
    Ok(form_groups(clique.len(), &access))
}

/// The groups as ranks of a communicator of all GPUs, whose rank `n` is on GPU `n`.
pub(super) fn as_ranks(groups: &[Vec<GpuId>]) -> Vec<Vec<Rank>> {
    let of = |group: &Vec<GpuId>| group.iter().map(|gpu| Rank::new(gpu.index())).collect();
    groups.iter().map(of).collect()
}

fn form_groups(gpus: usize, access: &[Vec<Option<f64>>]) -> Vec<Vec<GpuId>> {
    let reaches = |pair: Pair| {
        access
            .get(pair.from.index())
            .and_then(|row| row.get(pair.to.index()).copied().flatten())
            .is_some_and(|can| can > 0.0)
    };
    let groups = peer_groups::groups(gpus, reaches)
        .filter(|groups| groups.iter().any(|group| group.len() > 1));
    groups.unwrap_or_else(|| vec![GpuId::all(gpus).collect()])
}

fn query_access(clique: &Clique) -> Result<Vec<Vec<Option<f64>>>, Box<Finding>> {
    let mut access = vec![vec![None; clique.len()]; clique.len()];
    for (from, to) in clique.pairs() {
        let pair = Pair::new(from.id(), to.id());
        let can = from.can_access(to).map_err(|e| fault_finding(pair, &e))?;
        if let Some(cell) = access
            .get_mut(pair.from.index())
            .and_then(|row| row.get_mut(pair.to.index()))
        {
            *cell = Some(f64::from(u8::from(can)));
        }
    }
    Ok(access)
}

/// The part of a matrix of all GPUs that belongs to a group.
pub(super) fn submatrix(matrix: &Matrix, group: &[GpuId]) -> Matrix {
    let pick = |labels: &[String]| {
        group
            .iter()
            .filter_map(|gpu| labels.get(gpu.index()).cloned())
            .collect()
    };
    let row = |from: &GpuId| {
        let row = matrix.values.get(from.index());
        group
            .iter()
            .map(|to| row.and_then(|row| row.get(to.index()).copied().flatten()))
            .collect()
    };
    Matrix {
        name: matrix.name.clone(),
        unit: matrix.unit.clone(),
        rows: pick(&matrix.rows),
        columns: pick(&matrix.columns),
        values: group.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(gpus: usize, can: impl Fn(usize, usize) -> bool) -> Vec<Vec<Option<f64>>> {
        let row = |a| {
            (0..gpus)
                .map(|b| Some(f64::from(u8::from(a == b || can(a, b)))))
                .collect()
        };
        (0..gpus).map(row).collect()
    }

    #[test]
    fn bridged_pairs_are_groups_and_anything_else_is_one_group() {
        assert_eq!(
            form_groups(4, &access(4, |a, b| a / 2 == b / 2)),
            [vec![0, 1], vec![2, 3]]
        );
        assert_eq!(form_groups(4, &access(4, |_, _| true)), [vec![0, 1, 2, 3]]);
        // If one direction is missing or no GPU reaches another, the test must prove all GPUs together.
        assert_eq!(
            form_groups(3, &access(3, |a, b| (a, b) != (0, 1))),
            [vec![0, 1, 2]]
        );
        assert_eq!(form_groups(2, &access(2, |_, _| false)), [vec![0, 1]]);
    }

    #[test]
    fn a_groups_part_has_its_own_rows_and_columns() {
        let all = super::super::limits::tests::edges(4, 20.0);
        let part = submatrix(&all, &GpuId::list([1, 3]));
        assert_eq!(
            (part.rows, part.values),
            (
                vec!["1".into(), "3".into()],
                vec![vec![None, Some(20.0)], vec![Some(20.0), None]]
            )
        );
    }
}
