//! A headless Chromium that tests of pages control over its DevTools protocol, through two pipes
//! (<https://chromedevtools.github.io/devtools-protocol/>). It reaches no network. A page's events are kept, so that a
//! test can check what the page has logged and fetched.

use std::io::{BufRead, BufReader, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use command_fds::{CommandFdExt, FdMapping};
use serde_json::{Value, json};

use super::{Folder, has, wait_until};

/// A longer wait for an answer means that the browser hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    commands: PipeWriter,
    messages: mpsc::Receiver<Value>,
    session: Option<String>,
    sent: u64,
    /// Events that the page has sent.
    pub(crate) events: Vec<Value>,
    _profile: Folder,
}

impl Browser {
    /// Starts a browser; `None` where Chromium is not installed.
    pub(crate) fn start() -> Option<Self> {
        if !has("chromium") {
            return None;
        }
        let profile = Folder::new();
        let (from_us, commands) = std::io::pipe().unwrap();
        let (answers, to_us) = std::io::pipe().unwrap();
        let mut command = Command::new("chromium");
        command
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-component-update"])
            .args(["--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mappings = [(OwnedFd::from(from_us), 3), (OwnedFd::from(to_us), 4)];
        let mappings = mappings.map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd });
        command.fd_mappings(mappings.into()).unwrap();
        let child = command.spawn().unwrap();
        // This closes our copies of the browser's ends of the pipes.
        drop(command);
        let (sender, messages) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(answers).split(0);
            lines.map_while(Result::ok).try_for_each(|line| sender.send(serde_json::from_slice(&line).unwrap()))
        });
        let mut browser =
            Self { child, commands, messages, session: None, sent: 0, events: Vec::new(), _profile: profile };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.ask("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Sends a command and waits for its answer.
    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.sent += 1;
        let mut message = json!({"id": self.sent, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.commands.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let message = self.messages.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("no answer to {method}"));
            if message["id"] == self.sent {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        self.ask_value(json!({"expression": expression, "returnByValue": true}))
    }

    /// The value that an expression's promise resolves to; promises stay pending where scripts are disabled.
    #[track_caller]
    pub(crate) fn promised(&mut self, expression: &str) -> Value {
        self.ask_value(json!({"expression": expression, "returnByValue": true, "awaitPromise": true}))
    }

    #[track_caller]
    fn ask_value(&mut self, parameters: Value) -> Value {
        let answer = self.ask("Runtime.evaluate", parameters);
        assert!(answer["exceptionDetails"].is_null(), "{answer:#}");
        answer["result"]["value"].clone()
    }

    /// Sets the size of the window in pixels, and its colour scheme: `light` or `dark`.
    pub(crate) fn show_as(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.ask("Emulation.setDeviceMetricsOverride", size);
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.ask("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Opens a file and waits until it is fully loaded.
    pub(crate) fn open(&mut self, page: &Path) {
        self.events.clear();
        self.ask("Page.navigate", json!({"url": format!("file://{}", page.display())}));
        wait_until("the page is there", || {
            self.evaluate("location.protocol == 'file:' && document.readyState == 'complete'") == true
        });
    }

    /// The events of one kind so far.
    pub(crate) fn heard(&self, method: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["method"] == method).map(|event| &event["params"]).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
