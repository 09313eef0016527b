//! Text that waits for what follows it.

/// The end of a text that came in pieces, as far as it could not be decided yet.
#[derive(Default)]
pub(super) struct Hold {
    text: String,
    /// What stands before was decided. It is removed only when it is the greater part, so that a long
    /// text which is decided bit by bit is not moved each time.
    start: usize,
}

impl Hold {
    /// How many bytes are held.
    pub(super) fn len(&self) -> usize {
        self.text.len() - self.start
    }

    /// Shows what is held, with the piece behind it, to `decide`, which says how much of it is decided.
    /// The rest is held.
    pub(super) fn feed(&mut self, piece: &str, decide: impl FnOnce(&str) -> usize) {
        if self.len() == 0 {
            self.text.clear();
            let decided = decide(piece);
            self.text.push_str(piece.get(decided..).unwrap_or_default());
            self.start = 0;
            return;
        }
        self.text.push_str(piece);
        self.start += decide(self.text.get(self.start..).unwrap_or_default());
        if self.start > self.len() {
            self.text.drain(..self.start);
            self.start = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // CTX-57
    #[test]
    fn what_is_decided_is_not_shown_again() {
        let mut hold = Hold::default();
        hold.feed("", |text| text.len());
        assert_eq!((hold.len(), hold.text.as_str()), (0, ""));
        hold.feed("abc", |_| 1);
        hold.feed("d", |text| {
            assert_eq!(text, "bcd");
            1
        });
        hold.feed("", |text| {
            assert_eq!(text, "cd");
            0
        });
        assert_eq!(hold.len(), 2);
        hold.feed("é", |text| {
            assert_eq!(text, "cdé");
            text.len()
        });
        assert_eq!((hold.len(), hold.start), (0, 0));
    }
}
