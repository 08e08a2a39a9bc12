//! Which messages of exactly-once senders are in the log already.
//!
//! Such a sender works in numbered *batches*, one after the other, and may send a batch again after a failure, but never an older one:
//! it begins a batch when all of the one before is stored. So the ids of each sender's newest batch are all that has to be kept, and a
//! batch that is over needs no ids to be told from a new one.
//!
//! Every such message names sender and batch in its property [`SCOPE`] (`sender/batch`) and has its id as `UNIQ_KEY`: what is known
//! here follows from the log. After a crash it is built again from a snapshot and the log behind it:
//!
//! ```text
//! 8 bytes "ORBITIDS"   u32 version 1   u32 CRC-32 of all that follows
//! u64 physical offset up to which the log is in here        u32 number of senders, and for each:
//!     u16 length, name     u64 batch     i64 time of the last message (ms)     u64 number of ids, each 16 bytes
//! ```
//! All numbers are big-endian. Copies that brokers make of a message for another try are no messages of the sender's.
use std::collections::{HashMap, HashSet};

use thiserror::Error;
use wire::properties::{self, UNIQ_KEY};

/// The property that names a message's sender and batch.
pub const SCOPE: &str = "ORBIT_BATCH";
const MAGIC: &[u8; 8] = b"ORBITIDS";
const VERSION: u32 = 1;
const COPIES: [&str; 2] = ["%RETRY%", "%DLQ%"];

/// An id: 32 hex digits as a number.
pub type Id = u128;

/// Why a batch is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages say what the fields are
pub enum NotTaken {
    #[error("batch {batch} of sender {sender} is over: batch {newest} has begun")]
    Over { sender: String, batch: u64, newest: u64 },
    #[error("{ids} ids are known, the limit is {limit}")]
    Full { ids: usize, limit: usize },
}

/// Why a snapshot cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadSnapshot {
    /// Another file, or another version of it.
    #[error("not a snapshot of stored ids of version 1")]
    Foreign,
    /// Damaged.
    #[error("the checksum of the snapshot does not match")]
    Checksum,
    /// Cut short, or with lengths that do not add up.
    #[error("the snapshot is cut short")]
    Short,
}

#[derive(Debug, Default)]
struct Sender {
    batch: u64,
    last_ms: i64,
    ids: HashSet<Id, foldhash::fast::RandomState>,
}

/// The ids of the newest batch of every sender.
#[derive(Debug, Default)]
pub struct StoredIds {
    senders: HashMap<String, Sender>,
    count: usize,
}

impl StoredIds {
    /// How many ids there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Which of these ids are stored already. Nothing is noted: that is for [`Self::add`], once they are in the log.
    pub fn stored(&self, sender: &str, batch: u64, ids: &[Id], limit: usize) -> Result<Vec<bool>, NotTaken> {
        let known = self.senders.get(sender);
        match known {
            Some(known) if known.batch > batch => {
                return Err(NotTaken::Over { sender: sender.to_owned(), batch, newest: known.batch });
            }
            _ => {}
        }
        let current = known.filter(|known| known.batch == batch);
        let stored: Vec<bool> = ids.iter().map(|id| current.is_some_and(|known| known.ids.contains(id))).collect();
        // What a new batch replaces makes room for it.
        let replaced = if current.is_none() { known.map_or(0, |known| known.ids.len()) } else { 0 };
        let fresh = stored.iter().filter(|&&stored| !stored).count();
        if self.count - replaced + fresh > limit {
            return Err(NotTaken::Full { ids: self.count - replaced, limit });
        }
        Ok(stored)
    }

    /// Notes ids that are in the log now.
    pub fn add(&mut self, sender: &str, batch: u64, ids: impl IntoIterator<Item = Id>, now_ms: i64) {
        if !self.senders.contains_key(sender) {
            self.senders.insert(sender.to_owned(), Sender { batch, ..Sender::default() });
        }
        let Some(known) = self.senders.get_mut(sender) else { return };
        if known.batch > batch {
            return;
        }
        if known.batch < batch {
            self.count -= known.ids.len();
            *known = Sender { batch, ..Sender::default() };
        }
        known.last_ms = known.last_ms.max(now_ms);
        let before = known.ids.len();
        known.ids.extend(ids);
        self.count += known.ids.len() - before;
    }

    /// Lets go of the ids of a batch that nobody will send again, so that they make room; whoever sends it all the same is refused, as
    /// if the next batch had begun. Returns how many ids that were.
    pub fn end(&mut self, sender: &str, batch: u64) -> usize {
        let Some(known) = self.senders.get_mut(sender).filter(|known| known.batch == batch) else { return 0 };
        let ended = std::mem::take(&mut known.ids).len();
        known.batch = batch.saturating_add(1);
        self.count -= ended;
        ended
    }

    /// Notes a message of the log, if it is an exactly-once sender's.
    pub fn learn(&mut self, topic: &str, properties: &str, store_ms: i64) {
        let Some(scope) = properties::get(properties, SCOPE) else { return };
        if COPIES.iter().any(|prefix| topic.starts_with(prefix)) {
            return;
        }
        let id = properties::get(properties, UNIQ_KEY).and_then(parse_id);
        if let (Some((sender, batch)), Some(id)) = (parse_scope(scope), id) {
            self.add(sender, batch, [id], store_ms);
        }
    }

    /// Forgets senders that have sent nothing since; returns how many ids that were.
    pub fn forget_before(&mut self, time_ms: i64) -> usize {
        let before = self.count;
        self.senders.retain(|_, sender| {
            let stays = sender.last_ms >= time_ms;
            if !stays {
                self.count -= sender.ids.len();
            }
            stays
        });
        before - self.count
    }

    /// Everything, as of a physical offset of the log.
    pub fn snapshot(&self, physical_offset: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + 64 * self.senders.len() + 16 * self.count);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&physical_offset.to_be_bytes());
        out.extend_from_slice(&(self.senders.len() as u32).to_be_bytes());
        for (name, sender) in &self.senders {
            out.extend_from_slice(&(name.len() as u16).to_be_bytes());
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(&sender.batch.to_be_bytes());
            out.extend_from_slice(&sender.last_ms.to_be_bytes());
            out.extend_from_slice(&(sender.ids.len() as u64).to_be_bytes());
            sender.ids.iter().for_each(|id| out.extend_from_slice(&id.to_be_bytes()));
        }
        let crc = crc32fast::hash(&out[16..]);
        out[12..16].copy_from_slice(&crc.to_be_bytes());
        out
    }

    /// Reads a snapshot; also the physical offset the log has to be read from on.
    pub fn restore(bytes: &[u8]) -> Result<(StoredIds, u64), BadSnapshot> {
        let mut reader = Reader(bytes);
        if reader.take(8)? != MAGIC || reader.number::<4>()? != u64::from(VERSION) {
            return Err(BadSnapshot::Foreign);
        }
        if reader.number::<4>()? != u64::from(crc32fast::hash(reader.0)) {
            return Err(BadSnapshot::Checksum);
        }
        let physical_offset = reader.number::<8>()?;
        let mut restored = StoredIds::default();
        for _ in 0..reader.number::<4>()? {
            let len = reader.number::<2>()? as usize;
            let name = std::str::from_utf8(reader.take(len)?).map_err(|_| BadSnapshot::Short)?;
            let (batch, last_ms) = (reader.number::<8>()?, reader.number::<8>()? as i64);
            let len = usize::try_from(reader.number::<8>()?).ok().and_then(|count| count.checked_mul(16));
            let ids = reader.take(len.ok_or(BadSnapshot::Short)?)?;
            let ids = ids.chunks_exact(16).map(|id| id.iter().fold(0, |number, &byte| number << 8 | Id::from(byte)));
            restored.add(name, batch, ids, last_ms);
        }
        Ok((restored, physical_offset))
    }
}

/// The number behind 32 hex digits.
pub fn parse_id(text: &str) -> Option<Id> {
    // A sign would be taken for part of a number.
    (text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .then(|| Id::from_str_radix(text, 16).ok())
        .flatten()
}

/// Sender and batch of a scope.
pub fn parse_scope(text: &str) -> Option<(&str, u64)> {
    let (sender, batch) = text.rsplit_once('/')?;
    let plain = !sender.is_empty() && sender.len() <= 64 && batch.bytes().all(|byte| byte.is_ascii_digit());
    Some((sender, plain.then(|| batch.parse().ok()).flatten()?))
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], BadSnapshot> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(BadSnapshot::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number<const LEN: usize>(&mut self) -> Result<u64, BadSnapshot> {
        Ok(self.take(LEN)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LIMIT: usize = usize::MAX;

    #[test]
    fn a_batch_is_known_until_the_next_begins() {
        let mut ids = StoredIds::default();
        assert_eq!(ids.stored("a", 7, &[1, 2], NO_LIMIT), Ok(vec![false, false]));
        ids.add("a", 7, [1, 2], 100);
        ids.add("b", 1, [2], 100);
        assert_eq!(ids.stored("a", 7, &[2, 3], NO_LIMIT), Ok(vec![true, false]));
        assert_eq!(ids.stored("a", 8, &[1, 2], NO_LIMIT), Ok(vec![false, false]), "another batch");
        assert_eq!(ids.stored("a", 7, &[1], NO_LIMIT), Ok(vec![true]), "asking has changed nothing");
        ids.add("a", 8, [9], 200);
        assert_eq!(ids.len(), 2);
        assert!(matches!(ids.stored("a", 7, &[1], NO_LIMIT), Err(NotTaken::Over { newest: 8, .. })));
        assert_eq!(ids.stored("b", 1, &[2], NO_LIMIT), Ok(vec![true]), "others are not touched");
    }

    #[test]
    fn there_is_a_limit_and_old_senders_make_room() {
        let mut ids = StoredIds::default();
        ids.add("a", 1, 0..10, 100);
        assert!(matches!(ids.stored("b", 1, &[1], 10), Err(NotTaken::Full { ids: 10, limit: 10 })));
        assert_eq!(ids.stored("a", 1, &[1, 2], 10), Ok(vec![true, true]), "repeats take no room");
        assert!(ids.stored("a", 2, &[1, 2], 10).is_ok(), "a new batch replaces the old one");
        assert_eq!(ids.forget_before(101), 10);
        assert!(ids.is_empty());
        assert!(ids.stored("b", 1, &[1], 10).is_ok());
    }

    #[test]
    fn a_batch_that_has_ended_makes_room_and_is_not_taken_again() {
        let mut ids = StoredIds::default();
        ids.add("a", 7, [1, 2], 100);
        ids.add("b", 1, [3], 100);
        assert_eq!((ids.end("a", 6), ids.end("a", 8), ids.end("nobody", 7)), (0, 0, 0), "not the newest batch");
        assert_eq!(ids.end("a", 7), 2);
        assert_eq!(ids.len(), 1);
        let (ids, _) = StoredIds::restore(&ids.snapshot(1)).unwrap();
        assert!(matches!(ids.stored("a", 7, &[1], NO_LIMIT), Err(NotTaken::Over { newest: 8, .. })));
        assert_eq!(ids.stored("a", 8, &[1], 2), Ok(vec![false]));
    }

    #[test]
    fn a_snapshot_gives_back_everything() {
        let mut ids = StoredIds::default();
        ids.add("a", 7, [1, u128::MAX], 100);
        ids.add("b", 2, [5], 300);
        let bytes = ids.snapshot(4711);
        let (restored, offset) = StoredIds::restore(&bytes).unwrap();
        assert_eq!((offset, restored.len()), (4711, 3));
        assert_eq!(restored.stored("a", 7, &[1, 2, u128::MAX], NO_LIMIT), Ok(vec![true, false, true]));
        assert_eq!(restored.senders["b"].last_ms, 300);
        for end in 0..bytes.len() {
            assert!(StoredIds::restore(&bytes[..end]).is_err(), "{end} bytes");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(StoredIds::restore(&damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn only_messages_of_senders_are_learnt() {
        let text = "UNIQ_KEY\u{1}000102030405060708090A0B0C0D0E0F\u{2}ORBIT_BATCH\u{1}q/3";
        let learnt = |topic: &str, properties: &str| {
            let mut ids = StoredIds::default();
            ids.learn(topic, properties, 5);
            ids.len()
        };
        assert_eq!(learnt("orders", text), 1);
        assert_eq!(learnt("%RETRY%group", text), 0);
        assert_eq!(learnt("%DLQ%group", text), 0);
        assert_eq!(learnt("orders", "UNIQ_KEY\u{1}000102030405060708090A0B0C0D0E0F"), 0);
        assert_eq!(learnt("orders", "UNIQ_KEY\u{1}short\u{2}ORBIT_BATCH\u{1}q/3"), 0);
    }

    #[test]
    fn scopes_and_ids_are_read_strictly() {
        assert_eq!(parse_scope("a/b/12"), Some(("a/b", 12)));
        for bad in ["", "a", "/1", "a/", "a/-1", "a/+1", "a/1x", "a/99999999999999999999"] {
            assert_eq!(parse_scope(bad), None, "{bad:?}");
        }
        assert_eq!(parse_id("000000000000000000000000000000FF"), Some(255));
        assert_eq!(parse_id("+00000000000000000000000000000FF"), None);
        assert_eq!(parse_id("FF"), None);
    }
}
