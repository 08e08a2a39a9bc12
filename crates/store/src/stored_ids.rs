//! Ids of the messages of exactly-once senders that are in the log already.
//!
//! Such a sender sends numbered *batches*, one after the other. It may send a batch again after a failure, but never an
//! older one: it begins a batch when all of the previous batch is stored. So only the ids of each sender's newest batch
//! are kept, and an older batch is recognised by its number, without ids.
//!
//! Every such message names sender and batch in its property [`SCOPE`] (`sender/batch`) and has its id as `UNIQ_KEY`,
//! so this table can be computed from the log. A sender belongs to the account that its messages name in [`ACCOUNT`]
//! and to the topic of the messages. So no account can acknowledge or fill up the ids of another. Without access
//! control the account is empty.
//!
//! After a crash the table is rebuilt from a snapshot and the log behind it:
//!
//! ```text
//! 8 bytes "ORBITIDS"   u32 version 2   u32 CRC-32 of all that follows
//! u64 physical offset up to which the log is in here        u32 number of senders, and for each:
//!     u16 length, account     u16 length, topic     u16 length, name
//!     u64 batch     i64 time of the last message (ms)     u64 number of ids, each 16 bytes
//! ```
//! All numbers are big-endian. Version 1 had neither account nor topic. Ids without an account were stored before
//! access control was enabled (or by a peer that it trusts), so they count as stored for every account: a batch that is
//! sent again after the change is still recognised. Copies of a message that brokers make for another try are not
//! messages of the sender.
use std::collections::{HashMap, HashSet};

use thiserror::Error;
use wire::properties::{self, UNIQ_KEY};

/// Property that names a message's sender and batch.
pub const SCOPE: &str = "ORBIT_BATCH";
/// Property that names the account of a message's sender.
pub const ACCOUNT: &str = "ORBIT_ACCOUNT";
const REAL_TOPIC: &str = "REAL_TOPIC";
const MAGIC: &[u8; 8] = b"ORBITIDS";
const VERSION: u32 = 2;
const VERSION_WITHOUT_ACCOUNTS: u32 = 1;
const COPIES: [&str; 2] = ["%RETRY%", "%DLQ%"];
/// Topics that hold a message until it is due; the properties of the message name its real topic.
const WAITING_ROOMS: [&str; 2] = ["SCHEDULE_TOPIC_XXXX", "rmq_sys_orbit_timers"];
/// Number of ids that use about as much memory as one sender, even one without ids: an account may have one sender per
/// this many ids of its limit.
const SENDER_COST: usize = 4;
const MIN_SENDERS: usize = 64;

/// Message id: 32 hex digits as a number.
pub type Id = u128;

/// Reason why a batch is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the error texts describe the fields
pub enum NotTaken {
    #[error("batch {batch} of sender {sender} is over: batch {newest} has begun")]
    Over { sender: String, batch: u64, newest: u64 },
    #[error("{ids} ids of {senders} senders are known of this account, the limit is {limit} ids")]
    Full { ids: usize, senders: usize, limit: usize },
}

/// Reason why a snapshot cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadSnapshot {
    /// Another file, or another version of it.
    #[error("not a snapshot of stored ids of version 1 or 2")]
    Foreign,
    /// Damaged.
    #[error("the checksum of the snapshot does not match")]
    Checksum,
    /// Cut short, or with lengths that do not add up.
    #[error("the snapshot is cut short")]
    Short,
}

/// Owner of messages: a named sender of an account, for one topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner<'a> {
    /// Text that identifies the account; empty without access control.
    pub account: &'a str,
    /// Topic; empty if not known any more.
    pub topic: &'a str,
    /// Name of the sender.
    pub sender: &'a str,
}

impl Owner<'_> {
    fn key(&self) -> Key {
        [self.account, self.topic, self.sender].map(str::to_owned)
    }

    /// Returns the keys of ids that were recorded before there were accounts or topics: such ids count for every
    /// account.
    fn earlier(&self) -> [Key; 2] {
        [Owner { account: "", ..*self }.key(), Owner { account: "", topic: "", ..*self }.key()]
    }
}

/// Account, topic and sender.
type Key = [String; 3];

#[derive(Debug, Default)]
struct Sender {
    batch: u64,
    last_ms: i64,
    ids: HashSet<Id, foldhash::fast::RandomState>,
}

/// Table of the ids of the newest batch of every sender.
#[derive(Debug, Default)]
pub struct StoredIds {
    senders: HashMap<Key, Sender>,
    count: usize,
    taken: HashMap<String, Taken>,
}

/// Used part of the limit of an account.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    ids: usize,
    senders: usize,
}

impl StoredIds {
    /// Returns the number of ids.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if there are no ids.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns for each of these ids true if it is stored already. It adds nothing: [`Self::add`] does so, once the
    /// messages are in the log. The limit is that of one account.
    pub fn stored(&self, owner: Owner<'_>, batch: u64, ids: &[Id], limit: usize) -> Result<Vec<bool>, NotTaken> {
        let own = owner.key();
        let mut keys = vec![own.clone()];
        keys.extend(owner.earlier().into_iter().filter(|key| *key != own));
        let known: Vec<&Sender> = keys.iter().filter_map(|key| self.senders.get(key)).collect();
        if let Some(newest) = known.iter().map(|known| known.batch).max().filter(|&newest| newest > batch) {
            return Err(NotTaken::Over { sender: owner.sender.to_owned(), batch, newest });
        }
        let current: Vec<&Sender> = known.into_iter().filter(|known| known.batch == batch).collect();
        let stored: Vec<bool> = ids.iter().map(|id| current.iter().any(|known| known.ids.contains(id))).collect();
        let Taken { ids, senders } = self.taken.get(owner.account).copied().unwrap_or_default();
        // Ids that a new batch replaces do not count against the limit.
        let mine = self.senders.get(&own);
        let ids = ids - mine.filter(|mine| mine.batch < batch).map_or(0, |mine| mine.ids.len());
        let fresh = stored.iter().filter(|&&stored| !stored).count();
        let too_many_senders = mine.is_none() && senders >= MIN_SENDERS.max(limit / SENDER_COST);
        if ids + fresh > limit || (fresh > 0 && too_many_senders) {
            return Err(NotTaken::Full { ids, senders, limit });
        }
        Ok(stored)
    }

    /// Adds ids that are in the log now.
    pub fn add(&mut self, owner: Owner<'_>, batch: u64, ids: impl IntoIterator<Item = Id>, now_ms: i64) {
        let taken = self.taken.entry(owner.account.to_owned()).or_default();
        let known = self.senders.entry(owner.key()).or_insert_with(|| {
            taken.senders += 1;
            Sender { batch, ..Sender::default() }
        });
        if known.batch > batch {
            return;
        }
        if known.batch < batch {
            self.count -= known.ids.len();
            taken.ids -= known.ids.len();
            *known = Sender { batch, ..Sender::default() };
        }
        known.last_ms = known.last_ms.max(now_ms);
        let before = known.ids.len();
        known.ids.extend(ids);
        self.count += known.ids.len() - before;
        taken.ids += known.ids.len() - before;
    }

    /// Drops the ids of a batch that will not be sent again, to free their room; if the batch is sent anyway, it is
    /// rejected as if the next batch had begun. Returns the number of these ids.
    pub fn end(&mut self, owner: Owner<'_>, batch: u64) -> usize {
        let Some(known) = self.senders.get_mut(&owner.key()).filter(|known| known.batch == batch) else { return 0 };
        let ended = std::mem::take(&mut known.ids).len();
        known.batch = batch.saturating_add(1);
        self.count -= ended;
        self.give_back(owner.account, ended, 0);
        ended
    }

    fn give_back(&mut self, account: &str, ids: usize, senders: usize) {
        if let Some(taken) = self.taken.get_mut(account) {
            taken.ids -= ids;
            taken.senders -= senders;
            if taken.senders == 0 {
                self.taken.remove(account);
            }
        }
    }

    /// Adds the id of a message in the log, if an exactly-once sender sent it.
    pub fn learn(&mut self, topic: &str, properties: &str, store_ms: i64) {
        let Some(scope) = properties::get(properties, SCOPE) else { return };
        let topic = match properties::get(properties, REAL_TOPIC) {
            Some(real) if WAITING_ROOMS.contains(&topic) => real,
            _ => topic,
        };
        if COPIES.iter().any(|prefix| topic.starts_with(prefix)) {
            return;
        }
        let account = properties::get(properties, ACCOUNT).unwrap_or_default();
        let id = properties::get(properties, UNIQ_KEY).and_then(parse_id);
        if let (Some((sender, batch)), Some(id)) = (parse_scope(scope), id) {
            self.add(Owner { account, topic, sender }, batch, [id], store_ms);
        }
    }

    /// Removes senders that have sent nothing since `time_ms`; returns the number of their ids.
    pub fn forget_before(&mut self, time_ms: i64) -> usize {
        let before = self.count;
        let mut freed = Vec::new();
        self.senders.retain(|[account, ..], sender| {
            let stays = sender.last_ms >= time_ms;
            if !stays {
                self.count -= sender.ids.len();
                freed.push((account.clone(), sender.ids.len()));
            }
            stays
        });
        for (account, ids) in freed {
            self.give_back(&account, ids, 1);
        }
        before - self.count
    }

    /// Returns a snapshot of the table, as of a physical offset of the log.
    pub fn snapshot(&self, physical_offset: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + 192 * self.senders.len() + 16 * self.count);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&physical_offset.to_be_bytes());
        out.extend_from_slice(&(self.senders.len() as u32).to_be_bytes());
        for (key, sender) in &self.senders {
            for text in key {
                out.extend_from_slice(&(text.len() as u16).to_be_bytes());
                out.extend_from_slice(text.as_bytes());
            }
            out.extend_from_slice(&sender.batch.to_be_bytes());
            out.extend_from_slice(&sender.last_ms.to_be_bytes());
            out.extend_from_slice(&(sender.ids.len() as u64).to_be_bytes());
            sender.ids.iter().for_each(|id| out.extend_from_slice(&id.to_be_bytes()));
        }
        let crc = crc32fast::hash(&out[16..]);
        out[12..16].copy_from_slice(&crc.to_be_bytes());
        out
    }

    /// Reads a snapshot; also returns the physical offset from which the log must be read on.
    pub fn restore(bytes: &[u8]) -> Result<(StoredIds, u64), BadSnapshot> {
        let mut reader = Reader(bytes);
        if reader.take(8)? != MAGIC {
            return Err(BadSnapshot::Foreign);
        }
        let version = reader.number::<4>()?;
        if version != u64::from(VERSION) && version != u64::from(VERSION_WITHOUT_ACCOUNTS) {
            return Err(BadSnapshot::Foreign);
        }
        if reader.number::<4>()? != u64::from(crc32fast::hash(reader.0)) {
            return Err(BadSnapshot::Checksum);
        }
        let physical_offset = reader.number::<8>()?;
        let mut restored = StoredIds::default();
        for _ in 0..reader.number::<4>()? {
            let owner = if version == u64::from(VERSION) {
                Owner { account: reader.text()?, topic: reader.text()?, sender: reader.text()? }
            } else {
                Owner { sender: reader.text()?, ..Owner::default() }
            };
            let (batch, last_ms) = (reader.number::<8>()?, reader.number::<8>()? as i64);
            let len = usize::try_from(reader.number::<8>()?).ok().and_then(|count| count.checked_mul(16));
            let ids = reader.take(len.ok_or(BadSnapshot::Short)?)?;
            let ids = ids.chunks_exact(16).map(|id| id.iter().fold(0, |number, &byte| number << 8 | Id::from(byte)));
            restored.add(owner, batch, ids, last_ms);
        }
        Ok((restored, physical_offset))
    }
}

/// Parses 32 hex digits as a number.
pub fn parse_id(text: &str) -> Option<Id> {
    // A sign would otherwise be accepted as part of the number.
    (text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .then(|| Id::from_str_radix(text, 16).ok())
        .flatten()
}

/// Splits a scope into sender and batch.
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

    fn text(&mut self) -> Result<&'a str, BadSnapshot> {
        let len = self.number::<2>()? as usize;
        std::str::from_utf8(self.take(len)?).map_err(|_| BadSnapshot::Short)
    }

    fn number<const LEN: usize>(&mut self) -> Result<u64, BadSnapshot> {
        Ok(self.take(LEN)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LIMIT: usize = usize::MAX;

    fn of(sender: &str) -> Owner<'_> {
        Owner { account: "", topic: "t", sender }
    }

    #[test]
    fn a_batch_is_known_until_the_next_begins() {
        let mut ids = StoredIds::default();
        assert_eq!(ids.stored(of("a"), 7, &[1, 2], NO_LIMIT), Ok(vec![false, false]));
        ids.add(of("a"), 7, [1, 2], 100);
        ids.add(of("b"), 1, [2], 100);
        assert_eq!(ids.stored(of("a"), 7, &[2, 3], NO_LIMIT), Ok(vec![true, false]));
        assert_eq!(ids.stored(of("a"), 8, &[1, 2], NO_LIMIT), Ok(vec![false, false]), "another batch");
        assert_eq!(ids.stored(of("a"), 7, &[1], NO_LIMIT), Ok(vec![true]), "asking has changed nothing");
        ids.add(of("a"), 8, [9], 200);
        assert_eq!(ids.len(), 2);
        assert!(matches!(ids.stored(of("a"), 7, &[1], NO_LIMIT), Err(NotTaken::Over { newest: 8, .. })));
        assert_eq!(ids.stored(of("b"), 1, &[2], NO_LIMIT), Ok(vec![true]), "others are not touched");
    }

    #[test]
    fn there_is_a_limit_and_old_senders_make_room() {
        let mut ids = StoredIds::default();
        ids.add(of("a"), 1, 0..10, 100);
        assert!(matches!(ids.stored(of("b"), 1, &[1], 10), Err(NotTaken::Full { ids: 10, senders: 1, limit: 10 })));
        assert_eq!(ids.stored(of("a"), 1, &[1, 2], 10), Ok(vec![true, true]), "repeats take no room");
        assert!(ids.stored(of("a"), 2, &[1, 2], 10).is_ok(), "a new batch replaces the old one");
        assert_eq!(ids.forget_before(101), 10);
        assert!(ids.is_empty());
        assert!(ids.stored(of("b"), 1, &[1], 10).is_ok());
    }

    #[test]
    fn a_batch_that_has_ended_makes_room_and_is_not_taken_again() {
        let mut ids = StoredIds::default();
        ids.add(of("a"), 7, [1, 2], 100);
        ids.add(of("b"), 1, [3], 100);
        assert_eq!(
            (ids.end(of("a"), 6), ids.end(of("a"), 8), ids.end(of("nobody"), 7)),
            (0, 0, 0),
            "not the newest batch"
        );
        assert_eq!(ids.end(of("a"), 7), 2);
        assert_eq!(ids.len(), 1);
        let (ids, _) = StoredIds::restore(&ids.snapshot(1)).unwrap();
        assert!(matches!(ids.stored(of("a"), 7, &[1], NO_LIMIT), Err(NotTaken::Over { newest: 8, .. })));
        assert_eq!(ids.stored(of("a"), 8, &[1], 2), Ok(vec![false]));
    }

    #[test]
    fn a_snapshot_gives_back_everything() {
        let mut ids = StoredIds::default();
        ids.add(of("a"), 7, [1, u128::MAX], 100);
        ids.add(of("b"), 2, [5], 300);
        let bytes = ids.snapshot(4711);
        let (restored, offset) = StoredIds::restore(&bytes).unwrap();
        assert_eq!((offset, restored.len()), (4711, 3));
        assert_eq!(restored.stored(of("a"), 7, &[1, 2, u128::MAX], NO_LIMIT), Ok(vec![true, false, true]));
        assert_eq!(restored.senders[&of("b").key()].last_ms, 300);
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
    fn an_account_neither_sees_nor_fills_up_what_is_anothers() {
        let (mine, theirs) = (Owner { account: "1", ..of("q") }, Owner { account: "2", ..of("q") });
        let mut ids = StoredIds::default();
        ids.add(theirs, 9, 0..10, 100);
        assert_eq!(ids.stored(mine, 1, &[1, 2], 10), Ok(vec![false, false]), "neither stored nor over nor full");
        assert_eq!(ids.end(mine, 9), 0);
        assert_eq!(ids.stored(theirs, 9, &[1], 10), Ok(vec![true]));
        let elsewhere = Owner { topic: "u", ..theirs };
        assert_eq!(ids.stored(elsewhere, 9, &[1], NO_LIMIT), Ok(vec![false]), "of another topic");
        let (restored, _) = StoredIds::restore(&ids.snapshot(1)).unwrap();
        assert_eq!(restored.stored(mine, 1, &[1], NO_LIMIT), Ok(vec![false]));
        assert_eq!(restored.stored(theirs, 9, &[1], NO_LIMIT), Ok(vec![true]));
    }

    #[test]
    fn senders_without_ids_count_too() {
        let mut ids = StoredIds::default();
        let names: Vec<String> = (0..1000).map(|number| format!("s{number}")).collect();
        let taken = names.iter().take_while(|name| {
            let fits = ids.stored(of(name), 0, &[1], 100).is_ok();
            ids.add(of(name), 0, [1], 100);
            ids.end(of(name), 0);
            fits
        });
        assert_eq!(taken.count(), MIN_SENDERS);
    }

    #[test]
    fn a_snapshot_of_version_1_counts_for_every_account_and_topic() {
        let mut bytes = b"ORBITIDS\0\0\0\x01\0\0\0\0".to_vec();
        bytes.extend_from_slice(&4711u64.to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0, 1, 0, 1, b'q']);
        for number in [7, 100, 1] {
            bytes.extend_from_slice(&u64::to_be_bytes(number));
        }
        bytes.extend_from_slice(&5u128.to_be_bytes());
        let crc = crc32fast::hash(&bytes[16..]);
        bytes[12..16].copy_from_slice(&crc.to_be_bytes());
        let (mut ids, offset) = StoredIds::restore(&bytes).unwrap();
        assert_eq!((offset, ids.len()), (4711, 1));
        for owner in [of("q"), Owner { account: "1", ..of("q") }] {
            assert_eq!(ids.stored(owner, 7, &[5, 6], NO_LIMIT), Ok(vec![true, false]));
            assert!(matches!(ids.stored(owner, 6, &[5], NO_LIMIT), Err(NotTaken::Over { newest: 7, .. })));
        }
        ids.add(Owner { account: "1", ..of("q") }, 7, [6], 100);
        assert_eq!(ids.stored(Owner { account: "1", ..of("q") }, 7, &[5, 6], NO_LIMIT), Ok(vec![true, true]));
    }

    #[test]
    fn a_message_that_waits_belongs_to_its_own_topic() {
        let text = "UNIQ_KEY\u{1}000102030405060708090A0B0C0D0E0F\u{2}ORBIT_BATCH\u{1}q/3\u{2}ORBIT_ACCOUNT\u{1}a\u{2}REAL_TOPIC\u{1}";
        let learnt = |topic: &str, real: &str| {
            let mut ids = StoredIds::default();
            ids.learn(topic, &format!("{text}{real}"), 5);
            ids.senders.into_keys().next()
        };
        let of_orders = Some(Owner { account: "a", topic: "orders", sender: "q" }.key());
        assert_eq!(learnt("SCHEDULE_TOPIC_XXXX", "orders"), of_orders);
        assert_eq!(learnt("rmq_sys_orbit_timers", "orders"), of_orders);
        assert_eq!(learnt("orders", "another"), of_orders, "the property of a message that does not wait is anybody's");
        assert_eq!(learnt("SCHEDULE_TOPIC_XXXX", "%RETRY%g"), None);
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
