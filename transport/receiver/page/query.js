// What    Everything the page asks of its receiver: the token, /query, /metrics.
// Errors  ask() throws Denied when the token is missing or wrong, Error with the receiver's own words otherwise.

export class Denied extends Error {}

const KEY = "tallyman.read";

// A token in the fragment is kept for this tab and taken out of the address, so that it is not copied along with it.
export function takeTokenFromAddress() {
  const match = location.hash.match(/^#token=([^&]+)$/);
  if (!match) return;
  setToken(decodeURIComponent(match[1]));
  history.replaceState(null, "", location.pathname);
}

export function setToken(token) {
  sessionStorage.setItem(KEY, token.trim());
}

// Rows as arrays, in the order of the SELECT. Parameters are bound by the database, never pasted into the text.
export async function ask(question, parameters = {}, signal) {
  const token = sessionStorage.getItem(KEY);
  if (!token) throw new Denied("no read token");
  const search = new URLSearchParams({ format: "JSONCompact" });
  for (const [name, value] of Object.entries(parameters)) search.set("param_" + name, String(value));
  const answer = await fetch("/query?" + search, { method: "POST", body: question, headers: { Authorization: "Bearer " + token }, signal });
  if (answer.status === 401) throw new Denied("the receiver does not know this read token");
  const text = await answer.text();
  if (!answer.ok) throw new Error(text.trim() || "HTTP " + answer.status);
  return JSON.parse(text).data;
}

// Counters by name; those with labels are summed.
export async function metrics() {
  const answer = await fetch("/metrics");
  if (!answer.ok) throw new Error("HTTP " + answer.status);
  const out = {};
  for (const line of (await answer.text()).split("\n")) {
    const match = line.match(/^([A-Za-z_:][\w:]*)(?:\{.*\})? (\S+)/);
    if (match) out[match[1]] = (out[match[1]] || 0) + Number(match[2]);
  }
  return out;
}
