//! Table of all consume queues of a store by topic and queue id.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use foldhash::fast::RandomState;

use crate::consume_queue::{ConsumeQueue, check_name};
use crate::error::{Result, StoreError};
use crate::file_sequence::FileSequence;
use crate::locks::Whole;
use crate::mapped_file::entries;
use crate::new_file::remove_unfinished;

// The table is searched once per message. Topics come from clients, so the hash is seeded.
type ByTopic = HashMap<Box<str>, HashMap<i32, Arc<ConsumeQueue>, RandomState>, RandomState>;

#[derive(Debug)]
pub(crate) struct QueueTable {
    root: PathBuf,
    file_size: u64,
    queues: RwLock<ByTopic>,
}

impl QueueTable {
    /// Finds every `consumequeue/<topic>/<queue id>` below the root; names that are not a queue id are skipped, as in
    /// Java.
    pub fn load(root: &Path, file_size: u64) -> Result<QueueTable> {
        let base = root.join("consumequeue");
        fs::create_dir_all(&base).map_err(|e| StoreError::io("creating", &base, 0, e))?;
        let mut queues = ByTopic::default();
        for topic_dir in subdirectories(&base)? {
            let Some(topic) = name_of(&topic_dir) else { continue };
            for entry in entries(&topic_dir)? {
                remove_unfinished(&entry)?;
            }
            for queue_dir in subdirectories(&topic_dir)? {
                let Some(queue_id) = name_of(&queue_dir).and_then(|name| name.parse::<i32>().ok()) else { continue };
                let files = FileSequence::load(queue_dir.clone(), file_size)?;
                let queue = ConsumeQueue::new(topic, queue_id, files);
                queues.entry(topic.into()).or_default().insert(queue_id, Arc::new(queue));
            }
        }
        Ok(QueueTable { root: root.to_path_buf(), file_size, queues: RwLock::new(queues) })
    }

    #[inline]
    pub fn get(&self, topic: &str, queue_id: i32) -> Option<Arc<ConsumeQueue>> {
        self.queues.read().whole().get(topic)?.get(&queue_id).cloned()
    }

    /// Returns the queue, created in memory if it is new; its directory is created with its first unit.
    #[inline]
    pub fn get_or_add(&self, topic: &str, queue_id: i32) -> Result<Arc<ConsumeQueue>> {
        match self.get(topic, queue_id) {
            Some(queue) => Ok(queue),
            None => self.add(topic, queue_id),
        }
    }

    #[cold]
    fn add(&self, topic: &str, queue_id: i32) -> Result<Arc<ConsumeQueue>> {
        check_name(topic, queue_id)?;
        let files = FileSequence::empty(ConsumeQueue::dir(&self.root, topic, queue_id), self.file_size);
        let queue = Arc::new(ConsumeQueue::new(topic, queue_id, files));
        let mut queues = self.queues.write().whole();
        Ok(queues.entry(topic.into()).or_default().entry(queue_id).or_insert(queue).clone())
    }

    pub fn all(&self) -> Vec<Arc<ConsumeQueue>> {
        self.queues.read().whole().values().flat_map(HashMap::values).cloned().collect()
    }

    /// Removes the queues for which `doomed` returns true and deletes their files. Returns the number of removed
    /// queues.
    pub fn remove(&self, doomed: impl Fn(&ConsumeQueue) -> bool) -> Result<usize> {
        let mut removed = Vec::new();
        let mut queues = self.queues.write().whole();
        for topic in queues.values_mut() {
            topic.retain(|_, queue| {
                let goes = doomed(queue);
                if goes {
                    removed.push(queue.clone());
                }
                !goes
            });
        }
        queues.retain(|_, topic| !topic.is_empty());
        drop(queues);
        for queue in &removed {
            queue.files.drop_all()?;
            // Directories with other content stay, so errors are ignored.
            let _ = fs::remove_dir(&queue.files.dir);
            let _ = queue.files.dir.parent().map(fs::remove_dir);
        }
        Ok(removed.len())
    }

    /// Returns the end of the last message that any queue points to, −1 without messages.
    pub fn max_physical(&self) -> i64 {
        self.all().iter().map(|queue| queue.max_physical()).max().unwrap_or(-1)
    }
}

fn name_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

fn subdirectories(dir: &Path) -> Result<Vec<PathBuf>> {
    Ok(entries(dir)?.into_iter().filter(|path| path.is_dir()).collect())
}
