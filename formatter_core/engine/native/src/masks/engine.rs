//! A vocabulary with the automata that its grammars share.

use std::mem::size_of;
use std::sync::{Arc, Mutex, Weak};

use crate::base::damage::Guarded;
use crate::base::heap::{self, Counter};
use crate::base::limits::Outcome;
use crate::grammar::network::Draft;
use crate::tokens::lexicon::Lexicon;
use crate::tokens::trie::Vocabulary;

/// A vocabulary, and the automata that its grammars share.
pub struct Engine {
    pub vocabulary: Arc<Vocabulary>,
    lexicon: Guarded<Arc<Lexicon>>,
    /// Lexicons that new grammars no longer use, but older grammars still do.
    older: Mutex<Vec<Weak<Lexicon>>>,
    /// Workspace for compiling. No grammar depends on its contents from the one before.
    pub draft: Mutex<Draft>,
    pub draft_memory: Counter,
}

/// The bytes of a vocabulary by purpose, in the order of the C interface.
#[derive(Default)]
#[repr(C)]
pub struct EngineMemory {
    /// The tokens, and the trie that finds them.
    pub tables: usize,
    /// The automata of terminals that the grammars share.
    pub automata: usize,
    /// The classes and targets of the automata's states.
    pub token_classes: usize,
    /// The workspace for compiling the next grammar.
    pub workspace: usize,
}

impl Engine {
    pub fn new(vocabulary: Vocabulary) -> Self {
        Self::of(Arc::new(vocabulary))
    }

    /// Return the same vocabulary with automata of its own: compiling there never delays a mask of another grammar.
    pub fn apart(&self) -> Self {
        Self::of(self.vocabulary.clone())
    }

    fn of(vocabulary: Arc<Vocabulary>) -> Self {
        Engine {
            lexicon: Guarded::new(Arc::new(Lexicon::new(vocabulary.clone())), &Arc::default()),
            older: Mutex::default(),
            draft: Mutex::default(),
            draft_memory: Counter::default(),
            vocabulary,
        }
    }

    /// Drop the automata: new grammars start with empty ones.
    pub fn renew(&self) -> Outcome<()> {
        let mut current = self.lexicon.lock()?;
        let before = std::mem::replace(&mut *current, Arc::new(Lexicon::new(self.vocabulary.clone())));
        drop(current);
        self.keep_count_of(&before);
        Ok(())
    }

    /// Keep counting automata as long as grammars use them.
    fn keep_count_of(&self, lexicon: &Arc<Lexicon>) {
        if let Ok(mut older) = self.older.lock() {
            older.retain(|lexicon| lexicon.strong_count() > 0);
            older.push(Arc::downgrade(lexicon));
        }
    }

    /// Return the bytes of the vocabulary and its automata. No lock is held for long.
    pub fn memory(&self) -> Outcome<EngineMemory> {
        let vocabulary = heap::COUNTS + size_of::<Vocabulary>() + self.vocabulary.bytes();
        let lexicon = self.lexicon.lock()?.clone();
        let (mut automata, mut token_classes) = lexicon.memory()?;
        let older = self.older.lock().map_or_else(|_| Vec::new(), |older| older.clone());
        for lexicon in older.iter().filter_map(Weak::upgrade) {
            let more = lexicon.memory()?;
            (automata, token_classes) = (automata + more.0, token_classes + more.1);
        }
        Ok(EngineMemory {
            tables: size_of::<Self>() + vocabulary,
            automata,
            token_classes,
            workspace: self.draft_memory.bytes(),
        })
    }

    /// Return the automata for a new grammar: the current ones, unless they take too many bytes or a panic has damaged
    /// them.
    pub fn lexicon(&self) -> Outcome<Arc<Lexicon>> {
        let mut current = self.lexicon.lock()?;
        if current.is_full().unwrap_or(true) {
            let before = std::mem::replace(&mut *current, Arc::new(Lexicon::new(self.vocabulary.clone())));
            self.keep_count_of(&before);
        }
        Ok(current.clone())
    }
}
