//! Of many points, those that lie lowest under some straight line.
//!
//! 1. A line that is under every point of the hull is under every point that was added.

/// A point and what it stands for.
#[derive(Clone, Copy, Debug)]
struct Point<T> {
    at: i64,
    height: i64,
    what: T,
}

/// The lower convex hull of the points that were added, left to right.
#[derive(Clone, Debug)]
pub(crate) struct Hull<T> {
    points: Vec<Point<T>>,
}

impl<T: Copy> Hull<T> {
    pub(crate) fn new() -> Hull<T> {
        Hull { points: Vec::new() }
    }

    /// Adds a point, in any order.
    pub(crate) fn add(&mut self, at: i64, height: i64, what: T) {
        let point = Point { at, height, what };
        let mut place = self.points.partition_point(|other| other.at < at);
        if let Some(same) = self.points.get(place).filter(|other| other.at == at) {
            if same.height <= height {
                return;
            }
            self.points.remove(place);
        }
        if place > 0 && place < self.points.len() {
            let (left, right) = (self.points[place - 1], self.points[place]);
            if !is_below(&left, &point, &right) {
                return;
            }
        }
        self.points.insert(place, point);
        while place >= 2 && !self.is_corner(place - 1) {
            self.points.remove(place - 1);
            place -= 1;
        }
        while place + 2 < self.points.len() && !self.is_corner(place + 1) {
            self.points.remove(place + 1);
        }
    }

    fn is_corner(&self, at: usize) -> bool {
        is_below(&self.points[at - 1], &self.points[at], &self.points[at + 1])
    }

    pub(crate) fn len(&self) -> usize {
        self.points.len()
    }

    /// The things that the hull's points stand for.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.points.iter().map(|point| &point.what)
    }
}

/// Whether `middle` is below the line from `left` to `right`, between which it is.
fn is_below<T>(left: &Point<T>, middle: &Point<T>, right: &Point<T>) -> bool {
    let wide = |from: i64, to: i64| i128::from(to) - i128::from(from);
    let over = wide(left.at, middle.at) * wide(left.height, right.height);
    wide(left.height, middle.height) * wide(left.at, right.at) < over
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_under_the_hull_is_over_a_point() {
        let mut state = 7_u64;
        let mut chance = |below: i64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) as i64 % below
        };
        for count in 1..60 {
            let points: Vec<(i64, i64)> = (0..count).map(|_| (chance(40), chance(1_000))).collect();
            let mut hull = Hull::new();
            for (at, height) in &points {
                hull.add(*at, *height, (*at, *height));
            }
            let corners: Vec<(i64, i64)> = hull.iter().copied().collect();
            for slope in -60..60 {
                let lowest = |points: &[(i64, i64)]| {
                    let over = points.iter().map(|(at, height)| height - slope * at);
                    over.min().unwrap()
                };
                assert_eq!(lowest(&corners), lowest(&points), "{points:?}");
            }
            assert!(corners.is_sorted_by(|a, b| a.0 < b.0), "{corners:?}");
        }
    }
}
