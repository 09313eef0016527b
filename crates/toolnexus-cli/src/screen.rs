//! The two streams a command writes to, and the spinner that must not get between them.
//!
//! Answers go to stdout, everything else to stderr. On a terminal both are the same screen, so one
//! value knows whether a line is open and whether a spinner is to be cleared first.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use console::{Style, Term};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often the spinner moves.
const TICK: Duration = Duration::from_millis(100);

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
    spinner: Option<ProgressBar>,
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
        let write = |open: bool| {
            let gap = if open { "\n" } else { "" };
            let _ = match self.notes {
                Stream::Stdout => writeln!(io::stdout(), "{gap}{lines}"),
                Stream::Stderr => writeln!(io::stderr(), "{gap}{lines}"),
            };
        };
        // An open answer on stdout shares the screen with stderr only when both are terminals.
        let open = std::mem::take(&mut state.open_line) && self.notes_terminal();
        match &state.spinner {
            Some(spinner) => spinner.suspend(|| write(open)),
            None => write(open),
        }
    }

    /// Asks on stderr: the cursor stays behind the question.
    pub(crate) fn question(&self, text: &str) {
        drop(self.clear());
        let mut stderr = io::stderr().lock();
        let _ = write!(stderr, "{text}");
        let _ = stderr.flush();
    }

    /// Shows a spinner that says `what`, until something else is written or said.
    pub(crate) fn busy(&self, what: impl Into<String>) {
        if !self.stderr_terminal {
            return;
        }
        let mut state = self.state();
        if std::mem::take(&mut state.open_line) {
            let _ = writeln!(io::stderr());
        }
        let spinner = state.spinner.get_or_insert_with(spinner);
        spinner.set_message(what.into());
    }

    /// Takes the spinner away.
    pub(crate) fn idle(&self) {
        drop(self.clear());
    }

    fn clear(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        if let Some(spinner) = state.spinner.take() {
            spinner.finish_and_clear();
        }
        state
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn spinner() -> ProgressBar {
    let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let colour = if console::colors_enabled_stderr() { "{spinner:.cyan}" } else { "{spinner}" };
    // The template is a constant that indicatif reads; if not, its own style serves.
    if let Ok(style) = ProgressStyle::with_template(&format!("{colour} {{wide_msg}}")) {
        spinner.set_style(style.tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "));
    }
    spinner.enable_steady_tick(TICK);
    spinner
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
