//! Scan by several threads: each reads a piece of the log, and their batches are returned in the order of the log.
//!
//! ```text
//! log      | piece 1 | piece 2 | piece 3 | piece 4 | …
//! threads    reading   reading   not begun
//! reader       ^ takes the batches of piece 1, then those that have gathered of piece 2 …
//! ```
//! A piece is started when an earlier one is finished, so there are at most as many in memory as there are threads. A
//! thread whose piece makes more batches than expected (compressed bodies) waits for the reader.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use arrow_array::RecordBatch;
use store::StoreError;
use store::scan::LogRange;

use crate::scan::{Scan, Tally, Wishes};

/// Maximum number of batches of a piece that wait for the reader.
const WAITING: usize = 8;

type Outcome = Result<Option<RecordBatch>, StoreError>;

/// Ranges to read, and the channel for the outcomes.
type Task = (Vec<LogRange>, SyncSender<(Outcome, Tally)>);

pub(crate) struct ReadAhead {
    threads: usize,
    unread: std::vec::IntoIter<Vec<LogRange>>,
    /// Channel to the threads; the threads end when it is closed: once all pieces are started, or one has failed.
    tasks: Option<Sender<Task>>,
    begun: VecDeque<Piece>,
    /// Tally of the pieces that are finished.
    through: Tally,
}

struct Piece {
    outcomes: Receiver<(Outcome, Tally)>,
    /// Tally of the piece when it made the batch that was taken last.
    met: Tally,
}

impl ReadAhead {
    pub fn new(wishes: &Arc<Wishes>, pieces: Vec<Vec<LogRange>>, threads: usize) -> io::Result<ReadAhead> {
        let (sender, tasks) = channel();
        let tasks = Arc::new(Mutex::new(tasks));
        for _ in 0..threads.min(pieces.len()) {
            let (wishes, tasks) = (wishes.clone(), tasks.clone());
            thread::Builder::new().name("orbitmq-scan".into()).spawn(move || work(wishes, &tasks))?;
        }
        let (unread, begun, through) = (pieces.into_iter(), VecDeque::new(), Tally::default());
        Ok(ReadAhead { threads, unread, tasks: Some(sender), begun, through })
    }

    /// Returns the next batch, `None` at the end, and after an error.
    pub fn next(&mut self) -> Outcome {
        loop {
            self.begin_pieces();
            let Some(piece) = self.begun.front_mut() else { return Ok(None) };
            let (outcome, met) = piece.outcomes.recv().expect("a thread says how its piece ends");
            if let Ok(Some(batch)) = outcome {
                piece.met = met;
                return Ok(Some(batch));
            }
            self.begun.pop_front();
            self.through.add(met);
            if let Err(error) = outcome {
                self.tasks = None;
                self.begun.clear();
                return Err(error);
            }
        }
    }

    pub fn tally(&self) -> Tally {
        let mut tally = self.through.clone();
        if let Some(first) = self.begun.front() {
            tally.add(first.met.clone());
        }
        tally
    }

    fn begin_pieces(&mut self) {
        while self.begun.len() < self.threads {
            let (Some(tasks), Some(ranges)) = (&self.tasks, self.unread.next()) else {
                self.tasks = None;
                return;
            };
            let (sender, outcomes) = sync_channel(WAITING);
            tasks.send((ranges, sender)).expect("a thread takes it");
            self.begun.push_back(Piece { outcomes, met: Tally::default() });
        }
    }
}

/// Reads pieces until no more will follow.
fn work(wishes: Arc<Wishes>, tasks: &Mutex<Receiver<Task>>) {
    let mut scan = Scan::new(wishes, Vec::new());
    loop {
        let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((ranges, outcomes)) = task else { return };
        scan.restart(ranges);
        read(&mut scan, &outcomes);
    }
}

/// Reads a piece to its end, or until an error, or until the receiver is dropped.
fn read(scan: &mut Scan, outcomes: &SyncSender<(Outcome, Tally)>) {
    loop {
        let outcome = scan.next();
        let goes_on = matches!(outcome, Ok(Some(_)));
        if outcomes.send((outcome, scan.tally())).is_err() || !goes_on {
            return;
        }
    }
}
