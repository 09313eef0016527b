//! The run as a value: random runs against a model of their own, and its events as JSON.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use support::{STYLES, tools::object, transcript};
use toolnexus_core::{Answer, ContentPart, Request, ToolResult, pending};
use toolnexus_llm::run::{Args, ModelAnswer, ModelCall, Run, RunError, RunEvent, RunStarted, Step};
use toolnexus_llm::{FinishReason, Message, Prompt, RunStatus, Style, Transcript, Usage, limits};

/// Decisions of a random run. An exhausted tape decides 0 for ever.
struct Tape {
    decisions: Vec<u16>,
    at: usize,
}

impl Tape {
    fn pick(&mut self, of: usize) -> usize {
        let decision = self.decisions.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(decision) % of.max(1)
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.pick(n) == n - 1
    }

    fn used_up(&self) -> bool {
        self.at >= self.decisions.len()
    }
}

/// Where a call stands, as the test sees it.
#[derive(Clone, Debug, PartialEq)]
enum Call {
    Planned { answered: Option<bool> },
    Running { answered: Option<bool> },
    Suspended { id: String },
    Finished,
}

/// What the test knows of a run: enough to say which events fit and what `next` must name.
#[derive(Clone)]
struct Reference {
    style: Style,
    max_turns: u32,
    turns: u32,
    calls: Vec<Call>,
    invalid: Vec<bool>,
    outcome: Option<(RunStatus, Option<String>)>,
    sealed: bool,
    records: usize,
}

impl Reference {
    fn wants_model(&self) -> bool {
        self.outcome.is_none() && self.calls.is_empty()
    }

    fn indices(&self, wanted: impl Fn(&Call) -> bool) -> Vec<usize> {
        (0..self.calls.len()).filter(|at| wanted(&self.calls[*at])).collect()
    }

    fn planned(&self) -> Vec<usize> {
        self.indices(|call| matches!(call, Call::Planned { .. }))
    }

    fn running(&self) -> Vec<usize> {
        self.indices(|call| matches!(call, Call::Running { .. }))
    }

    fn suspended(&self) -> Vec<usize> {
        self.indices(|call| matches!(call, Call::Suspended { .. }))
    }

    // RUN-4
    fn fits(&self, event: &RunEvent) -> bool {
        if self.sealed {
            return false;
        }
        match event {
            RunEvent::Started(_) => false,
            RunEvent::Failed { .. } | RunEvent::Resumed { .. } => true,
            RunEvent::MessagesReplaced { .. }
            | RunEvent::ToolsReplaced { .. }
            | RunEvent::ModelAnswered(_) => self.wants_model(),
            RunEvent::ToolStarted { indices, args, .. } => {
                let mut distinct = indices.clone();
                distinct.sort_unstable();
                distinct.dedup();
                let planned = self.planned();
                !indices.is_empty()
                    && distinct.len() == indices.len()
                    && args.len() == indices.len()
                    && indices.iter().all(|at| planned.contains(at))
            }
            RunEvent::ToolFinished { index, .. } => self.running().contains(index),
            RunEvent::Suspended { index, .. } => {
                self.calls.get(*index) == Some(&Call::Running { answered: None })
            }
            RunEvent::Answered { request_id, .. } => {
                self.calls.iter().any(|call| matches!(call, Call::Suspended { id } if id == request_id))
            }
            RunEvent::Finished { status, limit, .. } => match &self.outcome {
                Some((s, l)) => (s, l) == (status, limit),
                None => *status == RunStatus::Incomplete && limit.is_some() && self.calls.is_empty(),
            },
        }
    }

    fn apply(&mut self, event: &RunEvent) {
        match event {
            RunEvent::ModelAnswered(answer) => {
                self.turns += 1;
                self.calls = vec![Call::Planned { answered: None }; answer.calls.len()];
                self.invalid = answer.calls.iter().map(|call| call.invalid.is_some()).collect();
                if self.calls.is_empty() {
                    self.outcome = Some((RunStatus::Done, None));
                }
            }
            RunEvent::ToolStarted { indices, .. } => {
                for at in indices {
                    let Call::Planned { answered } = self.calls[*at] else { panic!() };
                    self.calls[*at] = Call::Running { answered };
                }
            }
            RunEvent::ToolFinished { index, .. } => {
                self.calls[*index] = Call::Finished;
                if self.calls.iter().all(|call| *call == Call::Finished) {
                    self.records += self.calls.len();
                    self.calls.clear();
                    if self.turns >= self.max_turns {
                        self.outcome = Some((RunStatus::Incomplete, Some(limits::MAX_TURNS.into())));
                    }
                }
            }
            RunEvent::Suspended { index, request, .. } => {
                self.calls[*index] = Call::Suspended { id: request.id.clone() };
            }
            RunEvent::Answered { request_id, answer } => {
                let asking = |call: &&mut Call| matches!(call, Call::Suspended { id } if id == request_id);
                *self.calls.iter_mut().find(asking).unwrap() = Call::Planned { answered: Some(answer.ok) };
            }
            RunEvent::Finished { status, limit, .. } => {
                self.outcome = Some((*status, limit.clone()));
                self.sealed = true;
            }
            _ => {}
        }
    }

    // RUN-2
    fn check_next(&self, run: &Run) {
        match run.next() {
            Step::Done(result) => {
                let (status, limit) = self.outcome.as_ref().expect("over too early");
                assert_eq!((&result.status, &result.limit), (status, limit));
                assert_eq!(result.turns, self.turns);
                assert_eq!((result.tool_calls.len(), result.tool_call_count), (self.records, self.records));
            }
            Step::CallModel { messages, turn } => {
                assert!(self.wants_model());
                assert_eq!(turn, self.turns);
                assert_eq!(messages, run.messages());
            }
            Step::CallTools(planned) => {
                assert_eq!(planned.iter().map(|call| call.index).collect::<Vec<_>>(), self.planned());
                for call in planned {
                    let Call::Planned { answered } = self.calls[call.index] else { panic!() };
                    assert_eq!(call.answer.map(|answer| answer.ok), answered);
                    // Not executed: what was declined, and what cannot be read.
                    let fixed = self.invalid[call.index] || answered == Some(false);
                    assert_eq!(call.reply.is_some(), fixed);
                }
            }
            Step::Ask(open) => {
                assert_eq!(self.planned(), [0; 0]);
                let asked: Vec<_> = open.iter().map(|open| open.index).collect();
                assert!(!asked.is_empty());
                assert_eq!(asked, self.suspended());
                for open in open {
                    let Call::Suspended { id } = &self.calls[open.index] else { panic!() };
                    assert_eq!(&open.request.id, id);
                }
            }
            Step::Wait => {
                assert_eq!((self.planned().len(), self.suspended().len()), (0, 0));
                assert!(!self.running().is_empty());
            }
        }
    }
}

fn args(n: usize) -> Args {
    Arc::new(object(json!({"n": n, "text": "é\"\n"})))
}

/// A turn of a model in the shape of the style, with up to four calls.
fn model_answer(style: Style, turn: u32, tape: &mut Tape) -> ModelAnswer {
    let text = ["", "text", "naïve ☃ \"quoted\""][tape.pick(3)];
    let count = tape.pick(5);
    let calls: Vec<ModelCall> = (0..count)
        .map(|at| {
            let invalid = tape.one_in(4).then(|| "not valid JSON: eof".to_owned());
            let args = if invalid.is_some() { Args::default() } else { args(at) };
            ModelCall {
                id: format!("c{turn}_{at}"),
                name: format!("tool{at}"),
                args,
                invalid,
                ..Default::default()
            }
        })
        .collect();
    let message = match style {
        Style::Anthropic => {
            let mut blocks: Vec<Value> = Vec::new();
            if !text.is_empty() {
                blocks.push(json!({"type": "text", "text": text}));
            }
            blocks.extend(calls.iter().map(
                |call| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": &*call.args}),
            ));
            (!blocks.is_empty()).then(|| json!({"role": "assistant", "content": blocks}))
        }
        _ if calls.is_empty() => Some(json!({"role": "assistant", "content": text})),
        _ => {
            let calls: Vec<Value> = calls
                .iter()
                .map(|call| {
                    let arguments = if call.invalid.is_some() { "{".into() } else { Value::from((*call.args).clone()).to_string() };
                    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
                })
                .collect();
            Some(json!({"role": "assistant", "content": text, "tool_calls": calls}))
        }
    };
    let finish_reason = if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    let usage = Usage { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5, ..Default::default() };
    ModelAnswer { message: message.map(Message::from), text: text.into(), calls, usage, finish_reason }
}

fn tool_result(tape: &mut Tape) -> ToolResult {
    match tape.pick(4) {
        0 => ToolResult::success("done"),
        1 => ToolResult::failure("failed ☃"),
        2 => ToolResult::success("").with_parts(vec![ContentPart::from_base64("image/png", "AAAA", None)]),
        _ => ToolResult::success("m").with_metadata(object(json!({"k": [1, null]}))),
    }
}

fn request(id: String) -> Request {
    Request { id, kind: "input".into(), prompt: "Which city?".into(), ..Default::default() }
}

fn answer(ok: bool) -> Answer {
    let data = ok.then(|| object(json!({"city": "Oslo"})));
    let reason = (!ok).then(|| "expired".to_owned());
    Answer { id: "whatever".into(), ok, data, reason }
}

/// An event that fits, chosen by the tape, as a driver would make it.
fn fitting(run: &Run, reference: &Reference, tape: &mut Tape) -> RunEvent {
    let interrupted = |tape: &mut Tape| match tape.pick(2) {
        0 => RunEvent::Failed { error: "the run was cancelled".into() },
        _ => RunEvent::Resumed { model: None },
    };
    if let Some((status, limit)) = &reference.outcome {
        return match tape.pick(3) {
            0 => interrupted(tape),
            _ => RunEvent::Finished { status: *status, limit: limit.clone(), text: None },
        };
    }
    if reference.calls.is_empty() {
        return match tape.pick(12) {
            0 => interrupted(tape),
            1 => RunEvent::MessagesReplaced {
                messages: vec![json!({"role": "user", "content": "the story so far"})].into(),
            },
            2 => RunEvent::ToolsReplaced { names: vec!["tool1".into()] },
            3 if tape.one_in(3) => RunEvent::Finished {
                status: RunStatus::Incomplete,
                limit: Some(limits::CONTENT_PART.into()),
                text: Some("this part cannot be sent".into()),
            },
            _ => RunEvent::ModelAnswered(model_answer(reference.style, reference.turns, tape)),
        };
    }
    let (planned, running, suspended) = (reference.planned(), reference.running(), reference.suspended());
    loop {
        match tape.pick(8) {
            0 => return interrupted(tape),
            1..=3 if !planned.is_empty() => {
                // Some of them, in any order.
                let mut indices: Vec<usize> = planned.iter().copied().filter(|_| !tape.one_in(3)).collect();
                if indices.is_empty() {
                    indices = planned;
                }
                let rotate = tape.pick(indices.len());
                indices.rotate_left(rotate);
                let args = indices.iter().map(|at| args(*at + 10)).collect();
                return RunEvent::ToolStarted { indices, args, media: vec![] };
            }
            4..=6 if !running.is_empty() => {
                let index = running[tape.pick(running.len())];
                let result = match tape.pick(3) {
                    0 => pending(Request {
                        prompt: "And now?".into(),
                        ..request(format!("sus-{}", tape.pick(3)))
                    }),
                    _ => tool_result(tape),
                };
                return run.event_of(index, result, || "generated".into());
            }
            7 if !suspended.is_empty() => {
                let Call::Suspended { id } = &reference.calls[suspended[tape.pick(suspended.len())]] else {
                    panic!()
                };
                return RunEvent::Answered { request_id: id.clone(), answer: answer(!tape.one_in(3)) };
            }
            _ if tape.used_up() => return RunEvent::Resumed { model: None },
            _ => {}
        }
    }
}

/// Any event, fitting or not.
fn any_event(reference: &Reference, tape: &mut Tape) -> RunEvent {
    let index = tape.pick(6);
    match tape.pick(12) {
        0 => RunEvent::Started(started(reference.style)),
        1 => RunEvent::ToolStarted { indices: vec![index], args: vec![args(0)], media: vec![] },
        2 => RunEvent::ToolStarted { indices: vec![], args: vec![], media: vec![] },
        3 => {
            RunEvent::ToolStarted { indices: vec![index, index], args: vec![args(0), args(1)], media: vec![] }
        }
        4 => RunEvent::ToolStarted { indices: vec![index, 0], args: vec![args(0)], media: vec![] },
        5 => RunEvent::ToolFinished { index, result: Arc::new(tool_result(tape)) },
        6 => RunEvent::Suspended {
            index,
            request: request(format!("sus-{}", index % 3)),
            output: "o".into(),
            in_doubt: false,
        },
        7 => RunEvent::Answered { request_id: format!("sus-{}", index % 3), answer: answer(true) },
        8 => RunEvent::ModelAnswered(model_answer(reference.style, 9, tape)),
        9 => RunEvent::MessagesReplaced { messages: Transcript::new() },
        10 => RunEvent::Finished {
            status: [RunStatus::Done, RunStatus::Pending, RunStatus::Incomplete][tape.pick(3)],
            limit: tape.one_in(2).then(|| limits::MAX_TURNS.into()),
            text: None,
        },
        _ => RunEvent::Resumed { model: None },
    }
}

fn started(style: Style) -> RunStarted {
    RunStarted {
        run_id: "r".into(),
        style,
        model: "m".into(),
        system: "SYS".into(),
        history: Transcript::new(),
        prompt: "hi".into(),
        max_turns: 3,
        conversation_id: None,
    }
}

/// A history whose calls are answered.
fn history(style: Style) -> Transcript {
    let messages = match style {
        Style::Anthropic => vec![
            json!({"role": "user", "content": "before"}),
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "h", "name": "t", "input": {}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "h", "content": "x", "is_error": false}]}),
            json!({"role": "assistant", "content": [{"type": "text", "text": "y"}]}),
        ],
        _ => vec![
            json!({"role": "user", "content": "before"}),
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "h", "type": "function", "function": {"name": "t", "arguments": ""}}]}),
            json!({"role": "tool", "tool_call_id": "h", "content": "x"}),
            json!({"role": "assistant", "content": "y"}),
        ],
    };
    Transcript::from(messages)
}

/// Closes every open call with some result, from the first or from the last.
fn closed(mut run: Run, from_last: bool) -> Run {
    loop {
        let event = match run.next() {
            Step::CallTools(planned) => {
                let call = if from_last { planned.last() } else { planned.first() }.unwrap();
                RunEvent::ToolStarted {
                    indices: vec![call.index],
                    args: vec![Arc::clone(call.args)],
                    media: vec![],
                }
            }
            Step::Ask(open) => {
                let open = if from_last { open.last() } else { open.first() }.unwrap();
                RunEvent::Answered { request_id: open.request.id.clone(), answer: answer(from_last) }
            }
            Step::Wait => {
                let mut open: Vec<usize> = (0..run.open_calls().len()).collect();
                open.retain(|at| run.finished_call(*at).is_none());
                let index = if from_last { open.pop().unwrap() } else { open[0] };
                RunEvent::ToolFinished { index, result: Arc::new(ToolResult::failure("closed")) }
            }
            Step::CallModel { .. } | Step::Done(_) => return run,
        };
        run.apply(&event).unwrap();
    }
}

/// What must hold of every state a run can reach.
fn check(run: &Run, reference: &Reference, written: &[RunEvent], tape: &mut Tape) {
    // (c) RUN-2: asking changes nothing.
    let before = run.clone();
    assert!(run.next() == run.next() && *run == before);
    reference.check_next(run);

    // (a) RUN-1, RUN-3, RUN-7: the events, written and read back, give the same run.
    assert!(Run::replay(written).unwrap() == *run);

    // (b) RUN-5: whatever happens to the open calls, the transcript can be sent.
    if reference.calls.is_empty() {
        transcript::check(reference.style, run.messages(), false).unwrap();
    }
    for from_last in [false, true] {
        let closed = closed(run.clone(), from_last);
        transcript::check(reference.style, closed.messages(), false).unwrap();
    }
    check_halt(run, reference);

    // (d) RUN-4: what does not fit is refused and changes nothing.
    for _ in 0..4 {
        let event = any_event(reference, tape);
        let mut other = run.clone();
        let outcome = other.apply(&event);
        if reference.fits(&event) {
            outcome.unwrap();
        } else {
            let Err(RunError::Unexpected { event: kind, state }) = outcome else {
                panic!("{event:?} was taken")
            };
            assert_eq!(kind, event.kind());
            assert!(!state.is_empty());
            assert!(other == *run);
        }
    }
}

/// CLIENT-66: stopping at the first suspension leaves a prefix of the turn's results.
fn check_halt(run: &Run, reference: &Reference) {
    let first_open = reference.calls.iter().position(|call| *call != Call::Finished);
    let suspended = first_open.filter(|at| matches!(reference.calls[*at], Call::Suspended { .. }));
    let halted = run.clone().halted();
    assert_eq!(halted.is_some(), suspended.is_some());
    let (Some(at), Some(result)) = (suspended, halted) else { return };
    let Call::Suspended { id } = &reference.calls[at] else { panic!() };
    transcript::check(reference.style, &result.messages, true).unwrap();
    assert_eq!(result.status, RunStatus::Pending);
    assert_eq!(result.pending.as_ref().map(|request| &request.id), Some(id));
    assert_eq!(result.limit, None);
    assert_eq!(result.tool_calls.len(), reference.records + at + 1);
    assert!(result.tool_calls.last().unwrap().is_error);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..Default::default() })]

    // RUN-1, RUN-2, RUN-3, RUN-4, RUN-5
    #[test]
    fn random_runs_keep_their_promises(
        anthropic in any::<bool>(),
        past in 0_usize..5,
        system in prop_oneof![Just(""), Just("SYS")],
        max_turns in 1_u32..4,
        decisions in proptest::collection::vec(any::<u16>(), 0..300),
    ) {
        let style = if anthropic { Style::Anthropic } else { Style::OpenAI };
        let start = RunStarted {
            system: system.into(),
            // Nothing, a whole conversation, or one that stops in the middle of its turn.
            history: history(style).messages().take(past).cloned().collect(),
            max_turns,
            ..started(style)
        };
        let mut tape = Tape { decisions, at: 0 };
        let mut reference = Reference {
            style, max_turns, turns: 0, calls: vec![], invalid: vec![], outcome: None, sealed: false, records: 0,
        };
        let mut run = Run::start(start.clone());
        let mut written = vec![reread(&RunEvent::Started(start))];
        check(&run, &reference, &written, &mut tape);
        while !tape.used_up() && !reference.sealed {
            let event = fitting(&run, &reference, &mut tape);
            prop_assert!(reference.fits(&event), "the test made {event:?}");
            run.apply(&event).unwrap();
            reference.apply(&event);
            written.push(reread(&event));
            check(&run, &reference, &written, &mut tape);
        }
    }
}

/// The event after a journey through text.
fn reread(event: &RunEvent) -> RunEvent {
    let text = serde_json::to_string(event).unwrap();
    let read: RunEvent = serde_json::from_str(&text).unwrap();
    assert!(read == *event, "{text}");
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    read
}

/// One event of every kind, with everything in it.
fn one_of_each() -> Vec<RunEvent> {
    let call = |at: usize, invalid: Option<&str>| ModelCall {
        id: format!("call_{at}"),
        name: "weather".into(),
        args: Arc::new(if invalid.is_some() { Map::new() } else { object(json!({"city": "Oslo"})) }),
        invalid: invalid.map(str::to_owned),
        ..Default::default()
    };
    vec![
        RunEvent::Started(RunStarted {
            run_id: "0198f3a2".into(),
            history: vec![json!({"role": "user", "content": "earlier"})].into(),
            prompt: Prompt::Parts(vec![
                ContentPart::text("what is this?"),
                ContentPart::from_base64("image/png", "AAAA", None),
            ]),
            conversation_id: Some("c".into()),
            ..started(Style::Anthropic)
        }),
        RunEvent::MessagesReplaced { messages: vec![json!({"role": "user", "content": "so far"})].into() },
        RunEvent::ToolsReplaced { names: vec!["weather".into()] },
        RunEvent::ModelAnswered(ModelAnswer {
            message: Some(Message::from(
                json!({"role": "assistant", "content": "I look", "x_unknown": [1.5]}),
            )),
            text: "I look".into(),
            calls: vec![call(0, None), call(1, Some("expected a JSON object"))],
            usage: Usage {
                prompt_tokens: 10,
                completion_tokens: 5,
                total_tokens: 15,
                cache_read_tokens: 4,
                ..Default::default()
            },
            finish_reason: FinishReason::ToolCalls,
        }),
        RunEvent::ToolStarted {
            indices: vec![0, 1],
            args: vec![call(0, None).args, Args::default()],
            media: vec![],
        },
        RunEvent::ToolFinished {
            index: 1,
            result: Arc::new(
                ToolResult::failure("invalid arguments")
                    .with_metadata(object(json!({"k": 1})))
                    .with_parts(vec![ContentPart::text("p")]),
            ),
        },
        RunEvent::Suspended {
            index: 0,
            request: request("sus-1".into()),
            output: "Input required".into(),
            in_doubt: false,
        },
        RunEvent::Answered { request_id: "sus-1".into(), answer: answer(true) },
        RunEvent::Finished {
            status: RunStatus::Incomplete,
            limit: Some("contentPart".into()),
            text: Some("no".into()),
        },
        RunEvent::Failed { error: "LLM 503".into() },
        RunEvent::Resumed { model: None },
    ]
}

// RUN-3, RUN-7: the format of the log, event by event
#[test]
fn the_json_of_each_event_stays_as_it_is() {
    let events = one_of_each();
    let mut kinds: Vec<&str> = events.iter().map(RunEvent::kind).collect();
    for event in &events {
        reread(event);
        let value = serde_json::to_value(event).unwrap();
        assert_eq!((&value["v"], &value["type"]), (&json!(1), &json!(event.kind())));
        insta::assert_snapshot!(
            format!("event_{}", event.kind()),
            serde_json::to_string_pretty(event).unwrap()
        );
    }
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), 11);
}

// RUN-3: what may be left out is left out, and read when it is absent
#[test]
fn unset_fields_are_not_written() {
    let text = |event: RunEvent| serde_json::to_string(&reread(&event)).unwrap();
    assert_eq!(
        text(RunEvent::Finished { status: RunStatus::Done, limit: None, text: None }),
        r#"{"v":1,"type":"finished","status":"done"}"#
    );
    assert_eq!(
        text(RunEvent::ToolFinished { index: 0, result: Arc::new(ToolResult::success("5")) }),
        r#"{"v":1,"type":"tool_finished","index":0,"result":{"output":"5","isError":false}}"#
    );
    let short = r#"{"type":"started","style":"openai","model":"m","prompt":"hi","max_turns":2}"#;
    let RunEvent::Started(read) = serde_json::from_str(short).unwrap() else { panic!() };
    assert_eq!((read.run_id.as_str(), read.history.len(), read.conversation_id), ("", 0, None));
    assert!(read.prompt == Prompt::Text("hi".into()));
}

// RUN-7: unknown fields are ignored, on every event
#[test]
fn fields_of_tomorrow_are_ignored() {
    for event in one_of_each() {
        let mut value = serde_json::to_value(&event).unwrap();
        value["added_later"] = json!({"deep": [1]});
        assert!(serde_json::from_value::<RunEvent>(value).unwrap() == event, "{}", event.kind());
    }
}

// RUN-7: a newer format is refused as such, anything else as unreadable
#[test]
fn newer_events_are_refused() {
    for text in
        [r#"{"v":2,"type":"resumed"}"#, r#"{"v":99,"type":"invented"}"#, r#"{"type":"resumed","v":2}"#]
    {
        let error = RunError::from_json(&serde_json::from_str::<RunEvent>(text).unwrap_err());
        assert!(matches!(error, RunError::Newer(_)), "{error:?}");
        assert!(error.to_string().contains("newer"), "{error}");
    }
    for text in [r#"{"v":1,"type":"invented"}"#, r#"{"v":1}"#, "[]", "{", r#"{"v":1,"type":"answered"}"#] {
        let error = RunError::from_json(&serde_json::from_str::<RunEvent>(text).unwrap_err());
        assert!(matches!(error, RunError::Unreadable(_)), "{text}: {error:?}");
    }
    assert!(
        serde_json::from_str::<RunEvent>(r#"{"v":1,"type":"resumed"}"#).unwrap()
            == RunEvent::Resumed { model: None }
    );
}

// RUN-1
#[test]
fn a_run_begins_with_started() {
    assert!(matches!(Run::replay(&[]), Err(RunError::NotStarted { .. })));
    let resumed = [RunEvent::Resumed { model: None }];
    assert!(matches!(Run::replay(&resumed), Err(RunError::NotStarted { found: "resumed" })));
    let twice = [RunEvent::Started(started(Style::OpenAI)), RunEvent::Started(started(Style::OpenAI))];
    assert!(matches!(Run::replay(&twice), Err(RunError::Unexpected { event: "started", .. })));
}

// RUN-4: the refusal says what and where
#[test]
fn an_unexpected_event_names_the_state() {
    let mut run = Run::start(started(Style::OpenAI));
    let error =
        run.apply(&RunEvent::Answered { request_id: "nope".into(), answer: answer(true) }).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"run event "answered" does not fit a run that is waiting for model call 0"#
    );
    run.apply(&RunEvent::ModelAnswered(ModelAnswer {
        message: None,
        text: "x".into(),
        calls: vec![],
        usage: Usage::default(),
        finish_reason: FinishReason::Stop,
    }))
    .unwrap();
    run.apply(&RunEvent::Finished { status: RunStatus::Done, limit: None, text: None }).unwrap();
    for event in one_of_each() {
        let error = run.apply(&event).unwrap_err();
        assert!(error.to_string().ends_with("finished"), "{error}");
    }
}

const SECRETS: [&str; 12] = [
    "system-secret",
    "history-secret",
    "prompt-secret",
    "text-secret",
    "message-secret",
    "args-secret",
    "reason-secret",
    "output-secret",
    "metadata-secret",
    "question-secret",
    "answer-secret",
    "error-secret",
];

/// Events full of payload, in an order that fits.
fn payloads(style: Style) -> Vec<RunEvent> {
    let secret = |name: &str| format!("{name}-secret");
    let args = Arc::new(object(json!({"k": secret("args")})));
    let call = |at: usize, invalid: Option<String>| ModelCall {
        id: format!("{at}"),
        name: "t".into(),
        args: Arc::clone(&args),
        invalid,
        ..Default::default()
    };
    let result = |output: String| {
        Arc::new(ToolResult::success(output).with_metadata(object(json!({"k": secret("metadata")}))))
    };
    let ask = Request {
        prompt: secret("question"),
        data: Some(object(json!({"k": secret("question")}))),
        ..request("sus".into())
    };
    vec![
        RunEvent::Started(RunStarted {
            system: secret("system"),
            history: vec![json!({"role": "user", "content": secret("history")})].into(),
            prompt: Prompt::Text(secret("prompt")),
            ..started(style)
        }),
        RunEvent::MessagesReplaced {
            messages: vec![json!({"role": "user", "content": secret("history")})].into(),
        },
        RunEvent::ModelAnswered(ModelAnswer {
            message: Some(Message::from(json!({"role": "assistant", "content": secret("message")}))),
            text: secret("text"),
            calls: vec![call(0, None), call(1, Some(secret("reason")))],
            usage: Usage::default(),
            finish_reason: FinishReason::ToolCalls,
        }),
        RunEvent::ToolStarted {
            indices: vec![0, 1],
            args: vec![Arc::clone(&args), Arc::clone(&args)],
            media: vec![],
        },
        RunEvent::Suspended { index: 0, request: ask, output: secret("output"), in_doubt: false },
        RunEvent::ToolFinished { index: 1, result: result(secret("output")) },
        RunEvent::Failed { error: secret("error") },
        RunEvent::Answered {
            request_id: "sus".into(),
            answer: Answer { data: Some(object(json!({"k": secret("answer")}))), ..answer(true) },
        },
        RunEvent::ToolStarted { indices: vec![0], args: vec![args], media: vec![] },
        RunEvent::ToolFinished { index: 0, result: result(secret("output")) },
        RunEvent::ModelAnswered(ModelAnswer {
            message: None,
            text: secret("text"),
            calls: vec![],
            usage: Usage::default(),
            finish_reason: FinishReason::Stop,
        }),
        RunEvent::Finished { status: RunStatus::Done, limit: None, text: Some(secret("text")) },
    ]
}

// RUN-7: Debug shows counts and states
#[test]
fn debug_shows_no_payload_of_runs_steps_and_events() {
    let check = |shown: String| {
        for secret in SECRETS {
            assert!(!shown.contains(secret), "{shown}");
        }
    };
    for style in STYLES {
        let events = payloads(style);
        let RunEvent::Started(start) = &events[0] else { panic!() };
        let mut run = Run::start(start.clone());
        check(format!("{:?} {:#?}", events[0], start));
        for event in &events[1..] {
            check(format!("{run:?} {:?} {event:?} {event:#?}", run.next()));
            check(run.apply(&RunEvent::Started(start.clone())).unwrap_err().to_string());
            run.apply(event).unwrap();
        }
        check(format!("{run:?} {:?}", run.next()));
        let shown = format!("{run:?}");
        assert!(shown.contains("turns: 2") && shown.contains("messages: "), "{shown}");
    }
}

// RUN-6: the start of a run holds what it is asked and nothing of how it gets there
#[test]
fn no_event_has_a_place_for_secrets() {
    let value = serde_json::to_value(&one_of_each()[0]).unwrap();
    let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "v",
            "type",
            "run_id",
            "style",
            "model",
            "system",
            "history",
            "prompt",
            "max_turns",
            "conversation_id"
        ]
    );
}

// RUN-8: messages are shared between events, the transcript, clones and the result
#[test]
fn messages_are_shared_and_not_copied() {
    let past = Message::from(json!({"role": "user", "content": "x".repeat(1000)}));
    let said = Message::from(json!({"role": "assistant", "content": "y".repeat(1000)}));
    let event = RunEvent::ModelAnswered(ModelAnswer {
        message: Some(said.clone()),
        text: String::new(),
        calls: vec![],
        usage: Usage::default(),
        finish_reason: FinishReason::Stop,
    });
    let mut run = Run::start(RunStarted { history: vec![past.clone()].into(), ..started(Style::OpenAI) });
    run.apply(&event).unwrap();
    let (first, last) = (past.json().as_ptr(), said.json().as_ptr());
    let clone = run.clone();
    for messages in [run.messages(), clone.messages(), &run.clone().into_result().unwrap().messages] {
        assert_eq!(messages.first().unwrap().json().as_ptr(), first);
        assert_eq!(messages.last().unwrap().json().as_ptr(), last);
        // Reading one as a value is shared too.
        assert!(std::ptr::eq(messages.last().unwrap().value(), said.value()));
    }
}

// RUN-7
#[test]
fn runs_and_events_move_between_threads() {
    fn value<T: Send + Sync + Clone + std::fmt::Debug + PartialEq>() {}
    value::<Run>();
    value::<RunEvent>();
}

// RUN-3: the events of a cancelled and resumed run are those of one run
#[test]
fn a_failed_run_goes_on_where_it_was() {
    for style in STYLES {
        let mut tape = Tape { decisions: vec![1, 2, 0, 0], at: 0 };
        let mut run = Run::start(started(style));
        run.apply(&RunEvent::ModelAnswered(model_answer(style, 0, &mut tape))).unwrap();
        let before = run.clone();
        run.apply(&RunEvent::Failed { error: "the run was cancelled".into() }).unwrap();
        run.apply(&RunEvent::Resumed { model: None }).unwrap();
        assert!(run == before);
        assert!(matches!(run.next(), Step::CallTools(planned) if planned.len() == 2));
    }
}
