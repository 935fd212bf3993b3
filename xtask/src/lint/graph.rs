//! Strongly connected components of a small directed graph: what the checks of arrows between crates and between files share.
//! Nodes are numbers; what they stand for is known to the caller.

/// The groups of nodes that reach each other, each with two nodes or more, or one that points at itself. Nodes ascend
/// within a group, and groups by their first node.
pub(super) fn circles(nodes: usize, edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let reachable: Vec<Vec<bool>> = (0..nodes).map(|from| reached_from(from, nodes, edges)).collect();
    let mut taken = vec![false; nodes];
    let mut found = Vec::new();
    for first in 0..nodes {
        if taken[first] || !reachable[first][first] {
            continue;
        }
        let group: Vec<usize> =
            (first..nodes).filter(|&other| reachable[first][other] && reachable[other][first]).collect();
        group.iter().for_each(|&node| taken[node] = true);
        found.push(group);
    }
    found
}

/// The nodes that one step or more from `from` lead to.
fn reached_from(from: usize, nodes: usize, edges: &[(usize, usize)]) -> Vec<bool> {
    let mut reached = vec![false; nodes];
    let mut open = vec![from];
    while let Some(node) = open.pop() {
        for &(_, to) in edges.iter().filter(|(source, _)| *source == node) {
            if !std::mem::replace(&mut reached[to], true) {
                open.push(to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_no_circle() {
        assert_eq!(circles(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn circles_are_found_with_their_members_and_without_those_who_only_lead_there() {
        let edges = [(0, 1), (1, 2), (2, 1), (3, 4), (4, 5), (5, 3), (2, 6)];
        assert_eq!(circles(7, &edges), [vec![1, 2], vec![3, 4, 5]]);
    }

    #[test]
    fn a_node_that_points_at_itself_is_a_circle() {
        assert_eq!(circles(2, &[(1, 1)]), [vec![1]]);
    }
}
