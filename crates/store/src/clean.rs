//! Expiry: deletes the oldest log files, and with them the parts of queues and index that pointed into them.
//!
//! The broker decides when to clean; the rules here are Java's. Files past their retention are deleted when cleaning is
//! due or the disk is fuller than `max_used_ratio`. Above `force_ratio` the oldest files are deleted whatever their
//! age; above `warn_ratio` appends are rejected until there is room again. The file being written always stays, and so
//! do the files prepared behind it.
//!
//! Queues drop their messages before the log does. So a reader of a queue gets the result that its offset is too small
//! while files are deleted. It is never led past the missing messages as if they had not existed, which happens in Java
//! until its queues have caught up.

use std::path::Path;

use crate::error::{Result, StoreError};
use crate::flush::Durable;

#[derive(Clone, Copy, Debug)]
pub struct CleanRules {
    pub reserved_ms: i64,
    pub max_used_ratio: f64,
    pub force_ratio: f64,
    pub warn_ratio: f64,
    pub max_log_files: usize,
}

impl Default for CleanRules {
    fn default() -> Self {
        CleanRules {
            reserved_ms: 72 * 3600 * 1000,
            max_used_ratio: 0.75,
            force_ratio: 0.85,
            warn_ratio: 0.90,
            max_log_files: 10,
        }
    }
}

/// Result of a round of cleaning.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cleaned {
    pub log_files: usize,
    pub queue_files: usize,
    pub index_files: usize,
    /// Used ratio of the disk before the round.
    pub used_ratio: f64,
}

impl Durable {
    pub fn clean(&self, rules: &CleanRules, now_ms: i64, due: bool, used_ratio: f64) -> Result<Cleaned> {
        let mut cleaned = Cleaned { used_ratio, ..Cleaned::default() };
        let forced = used_ratio > rules.force_ratio;
        if due || forced || used_ratio > rules.max_used_ratio {
            let written = self.log.max();
            let files = self.log.files.all();
            let deletable = files.split_last().map_or(&[][..], |(_, older)| older);
            let mut expired = 0;
            // The file being written need not be the last one: the next file is created before the current one is
            // ended.
            for file in deletable.iter().take_while(|file| file.end() <= written).take(rules.max_log_files) {
                if !forced && now_ms < file.modified_ms()? + rules.reserved_ms {
                    break;
                }
                expired += 1;
            }
            if expired > 0 {
                let kept_from = files[expired].start as i64;
                for queue in self.queues.all() {
                    queue.correct_min(kept_from)?;
                }
            }
            for _ in 0..expired {
                self.log.files.drop_first()?;
                cleaned.log_files += 1;
            }
        }
        let min_physical = self.log.min();
        for queue in self.queues.all() {
            cleaned.queue_files += queue.drop_expired(min_physical)?;
        }
        if let Some(index) = &self.index {
            cleaned.index_files = index.drop_expired(min_physical)?;
        }
        Ok(cleaned)
    }
}

/// Returns the used ratio of the file system of `path`, computed as in `df` and Java: used bytes divided by the bytes
/// that this user could use.
pub fn disk_used_ratio(path: &Path) -> Result<f64> {
    let stat = rustix::fs::statvfs(path).map_err(|e| StoreError::io("inspecting", path, 0, e.into()))?;
    let used = stat.f_blocks.saturating_sub(stat.f_bfree) as f64;
    let usable = stat.f_bavail as f64;
    if used + usable == 0.0 {
        return Ok(0.0);
    }
    Ok((used * 100.0 / (used + usable)).ceil() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn the_file_being_written_stays_though_it_is_not_the_last() {
        let dir = tempfile::tempdir().expect("directory");
        let options = Options { commit_log_file_size: 4096, index_enabled: false, ..Options::default() };
        let durable = Durable::load(dir.path(), &options).expect("load");
        for start in [0, 4096, 8192] {
            durable.log.files.push(durable.log.files.make(start).expect("make"));
        }
        durable.log.publish(5000);
        assert_eq!(durable.clean(&CleanRules::default(), 0, false, 0.99).expect("clean").log_files, 1);
        assert_eq!(durable.log.min(), 4096);
        assert_eq!(durable.clean(&CleanRules::default(), 0, false, 0.99).expect("clean").log_files, 0);
        durable.log.publish(8192);
        assert_eq!(durable.clean(&CleanRules::default(), 0, false, 0.99).expect("clean").log_files, 1);
    }
}
