//! Waits of nodes for each other in a world that stands still.

use super::host::Host;
use hearth_proto::Wait;
use std::collections::BTreeSet;

/// Waits of all nodes, and a circle of them if there is one: each waits for the next, the last for the first.
pub(crate) fn chains(hosts: &[Host]) -> Vec<String> {
    let alive = hosts.iter().filter(|host| host.is_alive());
    let waits: BTreeSet<Wait> = alive.flat_map(|host| host.node().waits()).collect();
    let waits: Vec<Wait> = waits
        .into_iter()
        .filter(|wait| wait.who != wait.on)
        .collect();
    let mut lines: Vec<String> = waits.iter().map(Wait::to_string).collect();
    if let Some(circle) = circle(&waits) {
        let nodes: Vec<String> = circle.iter().map(u32::to_string).collect();
        lines.push(format!(
            "nodes that wait in a circle: {}",
            nodes.join(" -> ")
        ));
    }
    lines
}

/// Nodes of a circle, the first once more at the end.
fn circle(waits: &[Wait]) -> Option<Vec<u32>> {
    let starts: BTreeSet<u32> = waits.iter().map(|wait| wait.who.0).collect();
    starts
        .into_iter()
        .find_map(|start| way_back(waits, &mut vec![start]))
}

fn way_back(waits: &[Wait], way: &mut Vec<u32>) -> Option<Vec<u32>> {
    let (start, at) = (way[0], way[way.len() - 1]);
    let next: BTreeSet<u32> = waits
        .iter()
        .filter(|wait| wait.who.0 == at)
        .map(|wait| wait.on.0)
        .collect();
    for node in next {
        if node == start {
            way.push(node);
            return Some(way.clone());
        }
        if !way.contains(&node) {
            way.push(node);
            if let Some(circle) = way_back(waits, way) {
                return Some(circle);
            }
            way.pop();
        }
    }
    None
}
