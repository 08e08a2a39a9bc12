//! Scans of a damaged log that are to read only a part of it: no damage may hide what is whole.

mod common;

use common::scanning::{cut, large, numbers, overwrite, read, snapshot, start_of};
use common::{Place, T0};
use store::scan::Selection;

#[test]
fn times_are_found_behind_damage_of_any_size() {
    const MOST: u64 = 1 << 20;
    for damage in [300 << 10, MOST, 4 << 20] {
        let place = Place::new();
        large(&place);
        let files = place.files("commitlog");
        let start = start_of(&files[1]);
        overwrite(&place, start, &vec![0xff; damage as usize]);
        let snapshot = snapshot(&place);
        // Some 400 messages are in each file.
        for (start, end) in [(None, Some(500)), (None, Some(700)), (Some(300), Some(600)), (Some(600), None)] {
            let at = |number: Option<i64>| number.map(|number| T0 + number * 10_000);
            let wanted = Selection { start_ms: at(start), end_ms: at(end), ..Selection::default() };
            let (everything, _) = read(&snapshot, snapshot.whole(), &wanted);
            let (found, report) = read(&snapshot, cut(snapshot.ranges(&wanted).expect("ranges"), 400_000), &wanted);
            assert_eq!(numbers(&found), numbers(&everything), "{damage} bytes, {start:?} to {end:?}");
            let is_between = start != Some(600) || damage > MOST;
            assert_eq!(report.damaged, u64::from(is_between), "{damage} bytes, {start:?} to {end:?}");
        }
    }
}
