// Mock LLM server on loopback: OpenAI chat-completions + Anthropic Messages, streaming and not.
// std only:  rustc -O -o mock_llm mock_llm.rs ;  ./mock_llm [port]
//
// Script (deterministic), decided by the messages after the last assistant message:
//   tool result           -> text answer (~200 tokens in 50 chunks)
//   text containing TOOL  -> one tool call get_quote({"symbol":"AAPL"}); TOOL=name calls that tool with the
//                            arguments in MOCK_TOOL_ARGS (default {}) in their place
//   else                  -> text answer
// The answer to a tool result or to a text containing FIGURES comes in sentences with figures (those of the peers'
// get_quote) in place of bare words, so that whoever checks figures before a person sees them has something to do.
// One write (TCP segment, HTTP chunk) per SSE event, TCP_NODELAY.
// Pace: for everybody by GET /pace/c1000-f0-g0, or per request through
// the model's name: "...-cNNN" chunk delay in us, "...-fNNN" first-byte delay in ms, "...-gNNN" a gap in ms after
// the first text (what follows it comes unpaced), "...-burst" one write.
// The port is the first argument; 0 takes a free one. The first line on standard output says which.
// GET /pace/...-h1 holds every answer before its first byte until the next /pace.
// GET /stats -> counters (reset with GET /reset); GET /last -> the last request body.
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

const N_CHUNKS: usize = 50;
const WORDS: [&str; 16] = [
    "market", "price", "volume", "the", "quote", "shows", "a", "steady", "move", "with", "low", "spread", "and",
    "little", "noise", "today",
];
const SENTENCES: &str = "AAPL trades at 187.50 USD today, up 0.40 on the day. Volume is 51,234,567 shares, a little \
above its average. The spread stays low and the tone is steady with little noise. ";

struct Shared {
    reqs: AtomicU64,
    bytes_in: AtomicU64,
    inflight: AtomicUsize,
    max_inflight: AtomicUsize,
    conns: AtomicU64,
    last: Mutex<Vec<u8>>,
    chunk_us: AtomicU64,
    first_ms: AtomicU64,
    gap_ms: AtomicU64,
    hold: Mutex<bool>,
    released: Condvar,
    oa_text: Vec<Vec<u8>>,
    oa_tool: Vec<Vec<u8>>,
    an_text: Vec<Vec<u8>>,
    an_tool: Vec<Vec<u8>>,
    oa_figures: Vec<Vec<u8>>,
    an_figures: Vec<Vec<u8>>,
    text: String,
    tool_args: String,
}

static CALLS: AtomicU64 = AtomicU64::new(0);

fn chunk_text(i: usize) -> String {
    // four words (about four tokens) a chunk
    let mut s = String::new();
    for k in 0..4 {
        s.push_str(WORDS[(i * 4 + k * 3) % 16]);
        s.push(' ');
    }
    s
}

fn chunk_figures(i: usize) -> String {
    let words: Vec<&str> = SENTENCES.split_whitespace().collect();
    let mut s = String::new();
    for k in 0..4 {
        s.push_str(words[(i * 4 + k) % words.len()]);
        s.push(' ');
    }
    s
}

fn http_chunk(payload: &str) -> Vec<u8> {
    format!("{:x}\r\n{}\r\n", payload.len(), payload).into_bytes()
}
fn oa(delta: &str, fin: &str) -> Vec<u8> {
    http_chunk(&format!(
        "data: {{\"id\":\"chatcmpl-mock\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"mock\",\"system_fingerprint\":\"fp_mock\",\"choices\":[{{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":{}}}]}}\n\n",
        delta, fin
    ))
}
fn an(ev: &str, body: &str) -> Vec<u8> {
    http_chunk(&format!("event: {}\ndata: {{\"type\":\"{}\"{}}}\n\n", ev, ev, body))
}
fn an_start() -> Vec<u8> {
    an("message_start", ",\"message\":{\"id\":\"msg_mock\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"mock\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":100,\"output_tokens\":1}}")
}
fn an_end(reason: &str) -> Vec<Vec<u8>> {
    vec![
        an("content_block_stop", ",\"index\":0"),
        an("message_delta", &format!(",\"delta\":{{\"stop_reason\":\"{}\",\"stop_sequence\":null}},\"usage\":{{\"output_tokens\":200}}", reason)),
        an("message_stop", ""),
    ]
}

fn script(chunk: fn(usize) -> String) -> (Vec<Vec<u8>>, Vec<Vec<u8>>, String) {
    let mut text = String::new();
    let mut t = vec![oa("{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}", "null")];
    let mut a = vec![an_start(), an("content_block_start", ",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}")];
    for i in 0..N_CHUNKS {
        let mut c = chunk(i);
        if i + 1 == N_CHUNKS { c = c.trim_end().to_string(); } // as a real answer ends
        text.push_str(&c);
        t.push(oa(&format!("{{\"content\":\"{}\"}}", c), "null"));
        a.push(an("content_block_delta", &format!(",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{}\"}}", c)));
    }
    t.push(oa("{}", "\"stop\""));
    a.extend(an_end("end_turn"));
    (t, a, text)
}

fn build_tool() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let tt = vec![
        oa("{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"index\":0,\"id\":\"call_ID\",\"type\":\"function\",\"function\":{\"name\":\"get_quote\",\"arguments\":\"\"}}],\"refusal\":null}", "null"),
        oa("{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"sym\"}}]}", "null"),
        oa("{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"bol\\\":\"}}]}", "null"),
        oa("{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\"AAPL\\\"}\"}}]}", "null"),
        oa("{}", "\"tool_calls\""),
    ];
    let mut at = vec![
        an_start(),
        an("content_block_start", ",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"call_ID\",\"name\":\"get_quote\",\"input\":{}}"),
        an("content_block_delta", ",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"sym\"}"),
        an("content_block_delta", ",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"bol\\\":\"}"),
        an("content_block_delta", ",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"\\\"AAPL\\\"}\"}"),
    ];
    at.extend(an_end("tool_use"));
    (tt, at)
}

// --- a JSON skimmer: no allocation, only finds spans ---
fn ws(b: &[u8], mut i: usize) -> usize {
    while i < b.len() && (b[i] == b' ' || b[i] == b'\n' || b[i] == b'\r' || b[i] == b'\t') { i += 1; }
    i
}
fn skip_str(b: &[u8], mut i: usize) -> usize {
    i += 1;
    while i < b.len() {
        match b[i] { b'\\' => i += 2, b'"' => return i + 1, _ => i += 1 }
    }
    b.len()
}
fn skip_val(b: &[u8], i: usize) -> usize {
    if i >= b.len() { return i; }
    match b[i] {
        b'"' => skip_str(b, i),
        b'{' | b'[' => {
            let mut d = 0;
            let mut j = i;
            while j < b.len() {
                match b[j] {
                    b'"' => { j = skip_str(b, j); continue; }
                    b'{' | b'[' => d += 1,
                    b'}' | b']' => { d -= 1; if d == 0 { return j + 1; } }
                    _ => {}
                }
                j += 1;
            }
            j
        }
        _ => {
            let mut j = i;
            while j < b.len() && b[j] != b',' && b[j] != b'}' && b[j] != b']' { j += 1; }
            j
        }
    }
}
// span of the value under `key` in the object beginning at b[0]
fn get<'a>(b: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let mut i = ws(b, 0);
    if i >= b.len() || b[i] != b'{' { return None; }
    i += 1;
    loop {
        i = ws(b, i);
        if i >= b.len() || b[i] != b'"' { return None; }
        let k0 = i;
        i = skip_str(b, i);
        let k = &b[k0 + 1..i - 1];
        i = ws(b, i) + 1; // ':'
        i = ws(b, i);
        let v0 = i;
        i = skip_val(b, i);
        if k == key { return Some(&b[v0..i]); }
        i = ws(b, i);
        if i < b.len() && b[i] == b',' { i += 1; } else { return None; }
    }
}
// the messages after the last assistant message, as one span
fn tail_run<'a>(b: &'a [u8]) -> &'a [u8] {
    let mut i = 1;
    let (mut t0, mut t1) = (1, 1);
    loop {
        i = ws(b, i);
        if i >= b.len() || b[i] == b']' { return &b[t0..t1]; }
        let v0 = i;
        i = skip_val(b, i);
        if get(&b[v0..i], b"role").map(|r| r == b"\"assistant\"").unwrap_or(false) { t0 = i; }
        t1 = i;
        i = ws(b, i);
        if i < b.len() && b[i] == b',' { i += 1; }
    }
}
fn find(h: &[u8], n: &[u8]) -> Option<usize> {
    if n.len() > h.len() { return None; }
    h.windows(n.len()).position(|w| w == n)
}
fn num_after(m: &[u8], tag: &[u8]) -> Option<u64> {
    let p = find(m, tag)? + tag.len();
    let mut v = 0u64;
    let mut any = false;
    for &c in &m[p..] {
        if c.is_ascii_digit() { v = v * 10 + (c - b'0') as u64; any = true } else { break }
    }
    if any { Some(v) } else { None }
}
fn sub(v: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    match find(v, from) {
        Some(p) => { let mut o = v[..p].to_vec(); o.extend_from_slice(to); o.extend_from_slice(&v[p + from.len()..]); o }
        None => v.to_vec(),
    }
}

fn respond_json(s: &mut TcpStream, code: &str, body: &[u8]) -> std::io::Result<()> {
    let mut o = format!("HTTP/1.1 {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", code, body.len()).into_bytes();
    o.extend_from_slice(body);
    s.write_all(&o)
}

fn handle(mut s: TcpStream, sh: Arc<Shared>) -> std::io::Result<()> {
    s.set_nodelay(true)?;
    sh.conns.fetch_add(1, Relaxed);
    let mut buf: Vec<u8> = Vec::with_capacity(65536);
    let mut tmp = vec![0u8; 262144];
    loop {
        let hend = loop {
            if let Some(p) = find(&buf[..buf.len().min(65536)], b"\r\n\r\n") { break p + 4; }
            let n = s.read(&mut tmp)?;
            if n == 0 { return Ok(()); }
            buf.extend_from_slice(&tmp[..n]);
        };
        let head = String::from_utf8_lossy(&buf[..hend]).to_string();
        let path = head.split_whitespace().nth(1).unwrap_or("/").to_string();
        let low = head.to_ascii_lowercase();
        let mut clen = 0usize;
        let mut chunked_in = false;
        for l in low.split("\r\n") {
            if let Some(v) = l.strip_prefix("content-length:") { clen = v.trim().parse().unwrap_or(0); }
            if l.starts_with("transfer-encoding:") && l.contains("chunked") { chunked_in = true; }
        }
        let body: Vec<u8>;
        if chunked_in {
            // rarely used: read until the terminating chunk, then take the frames apart
            while find(&buf[hend..], b"0\r\n\r\n").is_none() {
                let n = s.read(&mut tmp)?;
                if n == 0 { return Ok(()); }
                buf.extend_from_slice(&tmp[..n]);
            }
            let mut o = Vec::new();
            let mut i = hend;
            loop {
                let e = i + find(&buf[i..], b"\r\n").unwrap();
                let n = usize::from_str_radix(std::str::from_utf8(&buf[i..e]).unwrap_or("0").trim(), 16).unwrap_or(0);
                i = e + 2;
                if n == 0 { i += 2; break; }
                o.extend_from_slice(&buf[i..i + n]);
                i += n + 2;
            }
            buf.drain(..i);
            body = o;
        } else {
            while buf.len() < hend + clen {
                let n = s.read(&mut tmp)?;
                if n == 0 { return Ok(()); }
                buf.extend_from_slice(&tmp[..n]);
            }
            body = buf[hend..hend + clen].to_vec();
            buf.drain(..hend + clen);
        }
        if head.starts_with("GET") {
            if path == "/stats" || path == "/reset" {
                let o = format!("{{\"reqs\":{},\"bytes_in\":{},\"conns\":{},\"max_inflight\":{}}}", sh.reqs.load(Relaxed), sh.bytes_in.load(Relaxed), sh.conns.load(Relaxed), sh.max_inflight.load(Relaxed));
                if path == "/reset" { sh.reqs.store(0, Relaxed); sh.bytes_in.store(0, Relaxed); sh.max_inflight.store(0, Relaxed); sh.conns.store(0, Relaxed); }
                respond_json(&mut s, "200 OK", o.as_bytes())?;
            } else if let Some(pace) = path.strip_prefix("/pace/") {
                let part = |tag: char| pace.split('-').find_map(|p| p.strip_prefix(tag)).and_then(|v| v.parse().ok()).unwrap_or(0);
                sh.chunk_us.store(part('c'), Relaxed);
                sh.first_ms.store(part('f'), Relaxed);
                sh.gap_ms.store(part('g'), Relaxed);
                *sh.hold.lock().unwrap() = part('h') > 0;
                sh.released.notify_all();
                respond_json(&mut s, "200 OK", b"{}")?;
            } else if path == "/last" {
                let l = sh.last.lock().unwrap().clone();
                respond_json(&mut s, "200 OK", &l)?;
            } else if path.ends_with("/models") {
                respond_json(&mut s, "200 OK", b"{\"object\":\"list\",\"data\":[{\"id\":\"mock\",\"object\":\"model\",\"created\":1,\"owned_by\":\"mock\"}]}")?;
            } else {
                respond_json(&mut s, "404 Not Found", b"{}")?;
            }
            continue;
        }
        let anth = path.contains("/messages");
        if !anth && !path.contains("/chat/completions") {
            respond_json(&mut s, "404 Not Found", b"{\"error\":{\"message\":\"no such path\"}}")?;
            continue;
        }
        sh.reqs.fetch_add(1, Relaxed);
        sh.bytes_in.fetch_add(body.len() as u64, Relaxed);
        let inf = sh.inflight.fetch_add(1, Relaxed) + 1;
        sh.max_inflight.fetch_max(inf, Relaxed);
        if let Ok(mut l) = sh.last.try_lock() { l.clear(); l.extend_from_slice(&body); }
        let model = get(&body, b"model").unwrap_or(b"").to_vec();
        let stream = get(&body, b"stream").map(|v| v.starts_with(b"true")).unwrap_or(false);
        let usage = get(&body, b"stream_options").map(|v| find(v, b"include_usage").is_some()).unwrap_or(false);
        let last = get(&body, b"messages").map(tail_run).unwrap_or(b"");
        let is_res = find(last, b"\"tool_call_id\"").is_some() || find(last, b"\"tool_result\"").is_some();
        let want_tool = !is_res && find(last, b"TOOL").is_some();
        let cus = num_after(&model, b"-c").unwrap_or(sh.chunk_us.load(Relaxed));
        let fms = num_after(&model, b"-f").unwrap_or(sh.first_ms.load(Relaxed));
        let gap = num_after(&model, b"-g").unwrap_or(sh.gap_ms.load(Relaxed));
        let burst = find(&model, b"-burst").is_some();
        let figures = is_res || find(last, b"FIGURES").is_some();
        let cid = format!("call_{:024}", CALLS.fetch_add(1, Relaxed)); // unique and long, as real ones are
        // TOOL=name: the last such mark in the message names the tool
        let named: Option<String> = if want_tool {
            last.windows(5).rposition(|w| w == b"TOOL=").map(|p| last[p + 5..].iter().take_while(|c| c.is_ascii_alphanumeric() || **c == b'_' || **c == b'-').map(|c| *c as char).collect())
        } else { None };
        if fms > 0 { thread::sleep(Duration::from_millis(fms)); }
        drop(sh.released.wait_while(sh.hold.lock().unwrap(), |held| *held).unwrap());
        let r = if stream {
            let made;
            let evs = if let Some(n) = &named {
                let esc = sh.tool_args.replace('\\', "\\\\").replace('"', "\\\"");
                made = if anth {
                    let mut v = vec![an_start(), an("content_block_start", &format!(",\"index\":0,\"content_block\":{{\"type\":\"tool_use\",\"id\":\"{}\",\"name\":\"{}\",\"input\":{{}}}}", cid, n)),
                        an("content_block_delta", &format!(",\"index\":0,\"delta\":{{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}", esc))];
                    v.extend(an_end("tool_use"));
                    v
                } else {
                    vec![oa(&format!("{{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{{\"index\":0,\"id\":\"{}\",\"type\":\"function\",\"function\":{{\"name\":\"{}\",\"arguments\":\"\"}}}}]}}", cid, n), "null"),
                        oa(&format!("{{\"tool_calls\":[{{\"index\":0,\"function\":{{\"arguments\":\"{}\"}}}}]}}", esc), "null"), oa("{}", "\"tool_calls\"")]
                };
                &made
            } else { match (anth, want_tool, figures) {
                (false, true, _) => &sh.oa_tool, (true, true, _) => &sh.an_tool,
                (false, _, false) => &sh.oa_text, (true, _, false) => &sh.an_text,
                (false, _, true) => &sh.oa_figures, (true, _, true) => &sh.an_figures,
            } };
            send_stream(&mut s, evs, want_tool, &cid, Pace { cus, gap, burst }, !anth, usage)
        } else {
            let o = if anth {
                let c = if want_tool { format!("{{\"type\":\"tool_use\",\"id\":\"{}\",\"name\":\"get_quote\",\"input\":{{\"symbol\":\"AAPL\"}}}}", cid) } else { format!("{{\"type\":\"text\",\"text\":\"{}\"}}", sh.text) };
                format!("{{\"id\":\"msg_mock\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"mock\",\"content\":[{}],\"stop_reason\":\"{}\",\"stop_sequence\":null,\"usage\":{{\"input_tokens\":100,\"output_tokens\":200}}}}", c, if want_tool { "tool_use" } else { "end_turn" })
            } else {
                let m = if want_tool { format!("{{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{{\"id\":\"{}\",\"type\":\"function\",\"function\":{{\"name\":\"get_quote\",\"arguments\":\"{{\\\"symbol\\\":\\\"AAPL\\\"}}\"}}}}]}}", cid) } else { format!("{{\"role\":\"assistant\",\"content\":\"{}\"}}", sh.text) };
                format!("{{\"id\":\"chatcmpl-mock\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"mock\",\"choices\":[{{\"index\":0,\"message\":{},\"finish_reason\":\"{}\"}}],\"usage\":{{\"prompt_tokens\":100,\"completion_tokens\":200,\"total_tokens\":300}}}}", m, if want_tool { "tool_calls" } else { "stop" })
            };
            respond_json(&mut s, "200 OK", o.as_bytes())
        };
        sh.inflight.fetch_sub(1, Relaxed);
        r?;
    }
}

struct Pace {
    cus: u64,
    gap: u64,
    burst: bool,
}

fn send_stream(s: &mut TcpStream, evs: &[Vec<u8>], tool: bool, cid: &str, pace: Pace, oai: bool, usage: bool) -> std::io::Result<()> {
    let Pace { cus, gap, burst } = pace;
    // the first text is the second event of the OpenAI stream and the third of the other
    let first_text = if oai { 1 } else { 2 };
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut acc: Vec<u8> = Vec::new();
    acc.extend_from_slice(head);
    if !burst { s.write_all(&acc)?; acc.clear(); }
    for (i, e) in evs.iter().enumerate() {
        let tmp;
        // same length as the placeholder is not needed: the chunk header is redone below
        let bytes: &[u8] = if tool && i < 2 && find(e, b"call_ID").is_some() {
            let p = find(e, b"\r\n").unwrap() + 2;
            let pay = sub(&e[p..e.len() - 2], b"call_ID", cid.as_bytes());
            let mut o = format!("{:x}\r\n", pay.len()).into_bytes();
            o.extend_from_slice(&pay);
            o.extend_from_slice(b"\r\n");
            tmp = o;
            &tmp
        } else { e };
        if burst { acc.extend_from_slice(bytes); } else {
            if cus > 0 && i > 0 { thread::sleep(Duration::from_micros(cus)); }
            s.write_all(bytes)?;
            if gap > 0 && !tool && i == first_text { thread::sleep(Duration::from_millis(gap)); }
        }
    }
    let mut tail: Vec<u8> = Vec::new();
    if oai {
        if usage {
            tail.extend(http_chunk("data: {\"id\":\"chatcmpl-mock\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"mock\",\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":200,\"total_tokens\":300}}\n\n"));
        }
        tail.extend(http_chunk("data: [DONE]\n\n"));
    }
    tail.extend_from_slice(b"0\r\n\r\n");
    acc.extend_from_slice(&tail);
    s.write_all(&acc)
}

fn main() {
    let port: u16 = std::env::args().nth(1).and_then(|v| v.parse().ok()).unwrap_or(18080);
    let (oa_text, an_text, text) = script(chunk_text);
    let (oa_figures, an_figures, _) = script(chunk_figures);
    let (oa_tool, an_tool) = build_tool();
    let sh = Arc::new(Shared {
        reqs: AtomicU64::new(0), bytes_in: AtomicU64::new(0), inflight: AtomicUsize::new(0), max_inflight: AtomicUsize::new(0),
        conns: AtomicU64::new(0), last: Mutex::new(Vec::new()), chunk_us: AtomicU64::new(0),
        first_ms: AtomicU64::new(0), gap_ms: AtomicU64::new(0), hold: Mutex::new(false), released: Condvar::new(),
        oa_text, oa_tool, an_text, an_tool, oa_figures, an_figures, text,
        tool_args: std::env::var("MOCK_TOOL_ARGS").unwrap_or("{}".into()),
    });
    let l = TcpListener::bind(("127.0.0.1", port)).expect("bind");
    println!("{}", l.local_addr().expect("address").port());
    for c in l.incoming() {
        if let Ok(s) = c {
            let sh = sh.clone();
            let _ = thread::Builder::new().stack_size(512 * 1024).spawn(move || { let _ = handle(s, sh); });
        }
    }
}
