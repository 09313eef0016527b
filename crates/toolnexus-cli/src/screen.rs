//! The two streams a command writes to, and the spinner that must not get between them.
//!
//! Answers go to stdout, everything else to stderr. On a terminal both are the same screen, so one
//! value knows whether a line is open and whether a spinner is to be cleared first.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use console::{Style, Term};

/// How often the spinner moves, and what it looks like.
const TICK: Duration = Duration::from_millis(100);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// The width where there is no terminal to ask.
const WIDTH_ELSEWHERE: usize = 120;

/// Clones are the same screen.
#[derive(Clone)]
pub(crate) struct Screen {
    stdout_terminal: bool,
    stderr_terminal: bool,
    notes: Stream,
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdout,
    Stderr,
}

#[derive(Default)]
struct State {
    /// What the spinner says, while there is one.
    busy: Option<String>,
    frame: usize,
    /// Whether a thread moves the spinner.
    ticking: bool,
    /// The last thing on the screen is an answer without a line break after it.
    open_line: bool,
}

impl Screen {
    pub(crate) fn new() -> Self {
        Screen {
            stdout_terminal: io::stdout().is_terminal(),
            stderr_terminal: io::stderr().is_terminal(),
            notes: Stream::Stderr,
            state: Arc::default(),
        }
    }

    /// The same screen with its notes on stdout: for a command whose notes are its output.
    pub(crate) fn on_stdout(&self) -> Self {
        Screen { notes: Stream::Stdout, ..self.clone() }
    }

    /// The colours of notes.
    pub(crate) fn paint(&self) -> Paint {
        Paint { stdout: self.notes == Stream::Stdout }
    }

    /// Whether a person sees the answer as it is written.
    pub(crate) fn stdout_is_terminal(&self) -> bool {
        self.stdout_terminal
    }

    /// Whether answers and notes are read as one text.
    pub(crate) fn shares_notes(&self) -> bool {
        self.notes == Stream::Stdout || (self.stdout_terminal && self.stderr_terminal)
    }

    /// How many columns a line of notes has.
    pub(crate) fn width(&self) -> usize {
        if !self.notes_terminal() {
            return WIDTH_ELSEWHERE;
        }
        Term::stderr().size_checked().map_or(WIDTH_ELSEWHERE, |(_, columns)| usize::from(columns))
    }

    fn notes_terminal(&self) -> bool {
        match self.notes {
            Stream::Stdout => self.stdout_terminal,
            Stream::Stderr => self.stderr_terminal,
        }
    }

    /// How many columns a line of a listing has. Elsewhere than on a terminal nothing is cut.
    pub(crate) fn listing_width(&self) -> usize {
        if !self.stdout_terminal {
            return usize::MAX;
        }
        Term::stdout().size_checked().map_or(WIDTH_ELSEWHERE, |(_, columns)| usize::from(columns))
    }

    /// Writes text to stdout at once.
    ///
    /// # Errors
    /// Stdout's, `BrokenPipe` above all.
    pub(crate) fn answer(&self, text: &str) -> io::Result<()> {
        let mut state = self.clear();
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()?;
        if let Some(last) = text.chars().next_back() {
            state.open_line = self.stdout_terminal && last != '\n';
        }
        Ok(())
    }

    /// Writes lines to stderr; where they cannot be written, they are lost.
    pub(crate) fn note(&self, lines: &str) {
        let mut state = self.state();
        state.erase();
        // An open answer on stdout shares the screen with stderr only when both are terminals.
        let open = std::mem::take(&mut state.open_line) && self.notes_terminal();
        let gap = if open { "\n" } else { "" };
        let _ = match self.notes {
            Stream::Stdout => writeln!(io::stdout(), "{gap}{lines}"),
            Stream::Stderr => writeln!(io::stderr(), "{gap}{lines}"),
        };
        state.draw();
    }

    /// Asks on stderr: the cursor stays behind the question.
    pub(crate) fn question(&self, text: &str) {
        drop(self.clear());
        let mut stderr = io::stderr().lock();
        let _ = write!(stderr, "{text}");
        let _ = stderr.flush();
    }

    /// Whether a line can be written over, so that there is a spinner.
    pub(crate) fn has_spinner(&self) -> bool {
        self.stderr_terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
    }

    /// Shows a spinner that says `what`, until something else is written or said.
    pub(crate) fn busy(&self, what: &str) {
        if !self.has_spinner() {
            return;
        }
        // Cut, so that it stays on its line, also with a `^C` echoed behind it.
        let what = crate::render::one_line(what, self.width().saturating_sub(6));
        let mut state = self.state();
        if std::mem::take(&mut state.open_line) {
            let _ = writeln!(io::stderr());
        }
        state.busy = Some(what);
        state.draw();
        if !std::mem::replace(&mut state.ticking, true) {
            let state = Arc::clone(&self.state);
            // A thread, because the command may be busy writing or reading.
            std::thread::spawn(move || tick(&state));
        }
    }

    /// Takes the spinner away.
    pub(crate) fn idle(&self) {
        drop(self.clear());
    }

    fn clear(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        state.erase();
        state.busy = None;
        state
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Moves the spinner until there is none.
fn tick(state: &Mutex<State>) {
    loop {
        std::thread::sleep(TICK);
        let mut state = lock(state);
        if state.busy.is_none() {
            state.ticking = false;
            return;
        }
        state.frame += 1;
        state.draw();
    }
}

impl State {
    /// Draws the spinner, if there is one; what was on its line goes.
    fn draw(&self) {
        let Some(what) = &self.busy else { return };
        let frame = FRAMES.get(self.frame % FRAMES.len()).copied().unwrap_or_default();
        let terminal = Term::stderr();
        let _ = terminal.clear_line();
        let _ = terminal.write_str(&format!("{} {what}", Paint::stderr().name(frame)));
    }

    /// Takes the spinner off the screen.
    fn erase(&self) {
        if self.busy.is_some() {
            let _ = Term::stderr().clear_line();
        }
    }
}

/// Colours, where the stream they are meant for wants them.
#[derive(Clone)]
pub(crate) struct Paint {
    stdout: bool,
}

impl Paint {
    /// For text on stderr.
    pub(crate) const fn stderr() -> Self {
        Paint { stdout: false }
    }

    /// For text on stdout.
    pub(crate) const fn stdout() -> Self {
        Paint { stdout: true }
    }

    fn apply(&self, style: Style, text: &str) -> String {
        let style = if self.stdout { style.for_stdout() } else { style.for_stderr() };
        style.apply_to(text).to_string()
    }

    pub(crate) fn bold(&self, text: &str) -> String {
        self.apply(Style::new().bold(), text)
    }

    pub(crate) fn dim(&self, text: &str) -> String {
        self.apply(Style::new().dim(), text)
    }

    pub(crate) fn good(&self, text: &str) -> String {
        self.apply(Style::new().green(), text)
    }

    pub(crate) fn bad(&self, text: &str) -> String {
        self.apply(Style::new().red().bold(), text)
    }

    pub(crate) fn warn(&self, text: &str) -> String {
        self.apply(Style::new().yellow(), text)
    }

    pub(crate) fn name(&self, text: &str) -> String {
        self.apply(Style::new().cyan(), text)
    }
}
