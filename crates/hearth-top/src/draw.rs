//! The pages.
//!
//! 1. Nothing is told by colour alone: bold, reversed and dim letters are all there is.
//! 2. A narrow terminal loses the last columns, a low one all but the table.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState, Wrap};

use crate::alarms;
use crate::column::{self, Column};
use crate::look::AgentKey;
use crate::traffic::{ByteSource, each_second};
use crate::ui::{Help, Page, Ui};
use crate::watch::{Watch, Watched};
use crate::words;

/// Spaces between columns.
const GAP: u16 = 1;

/// Lines of the table of sources, and one that is empty.
const SOURCES_HEIGHT: u16 = 6;

/// A terminal as low as this has no room for more than a table.
const LOW: u16 = 16;

const HELP: &str = "\
q, Ctrl-C       end
Tab, right      next page: agents, sources, alarms
Shift-Tab, left page before
down, up, j, k  choose an agent, or move the lines of a page
s               sort by the next column

Numbers are of the last second. K, M and G of bytes are powers of 1024.
reads/s writes/s  calls of programs that reached the agent or its pool
bytes/s           bytes that programs read and wrote
pool              share of the agent's memory for pages that is in use
dirty             bytes that the store does not have yet
evict/s           pages that left the pool for others
msgs/s            messages to other agents
open              requests of programs without an answer yet
peers             other agents that are connected, of all

own pool, peers, bank, store: where bytes that programs read were found;
now, ever: their share in the last second, and since the start

Any key leads back.";

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);

/// Draws all.
pub fn draw(frame: &mut Frame<'_>, watch: &Watch, ui: &Ui) {
    let [title, body, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Line::from(titles(watch, ui)), title);
    match (ui.help, ui.page) {
        (Help::Shown, _) => frame.render_widget(Paragraph::new(HELP), body),
        (Help::Hidden, Page::Agents) => draw_agents(frame, body, watch, ui),
        (Help::Hidden, Page::Sources) => draw_table(frame, body, watch, ui, &sources(watch)),
        (Help::Hidden, Page::Alarms) => draw_alarms(frame, body, watch, ui),
    }
    let sorted = format!("q end  Tab page  s sort: {}  ? help", ui.sort.head());
    frame.render_widget(Line::styled(sorted, DIM), keys);
}

/// The pages' names, how much needs care, and the sets.
fn titles(watch: &Watch, ui: &Ui) -> Vec<Span<'static>> {
    let care = alarms::care(watch).len();
    let mut spans = Vec::new();
    for page in Page::ALL {
        let style = if page == ui.page { REVERSED } else { BOLD };
        let name = match (page, care) {
            (Page::Alarms, 1..) => format!(" alarms: {care} "),
            _ => format!(" {} ", page.name()),
        };
        spans.push(Span::styled(name, style));
    }
    let policy = watch.agents().next();
    let policy = policy.map_or_else(String::new, |(_, agent)| agent.status.policy.clone());
    let sets = match watch.jobs()[..] {
        [job] => format!("  {job}, policy {policy}"),
        ref jobs => format!("  {} sets", jobs.len()),
    };
    spans.push(Span::raw(sets));
    let view = watch
        .agents()
        .filter_map(|(_, agent)| agent.status.view.as_ref());
    if let (1, Some(view)) = (watch.jobs().len(), view.max_by_key(|view| view.number)) {
        let (number, members) = (view.number, view.members.len());
        spans.push(Span::raw(format!(", view {number}, {members} members")));
    }
    spans
}

fn draw_agents(frame: &mut Frame<'_>, area: Rect, watch: &Watch, ui: &Ui) {
    let agents = Grid {
        heads: Column::ALL.map(|column| column.head().to_owned()).to_vec(),
        sorted: Some(ui.sort as usize),
        cell: Box::new(|key, agent, at| Column::ALL[at].cell(watch, key, agent)),
    };
    if area.height < LOW {
        return draw_table(frame, area, watch, ui, &agents);
    }
    let [above, table, below] = Layout::vertical([
        Constraint::Length(SOURCES_HEIGHT),
        Constraint::Fill(1),
        Constraint::Length(2),
    ])
    .areas(area);
    let lines = source_lines(watch);
    frame.render_widget(Paragraph::new(lines.join("\n")), above);
    draw_table(frame, table, watch, ui, &agents);
    let rows = ui.sort.sorted(watch);
    if let Some((key, agent)) = rows.get(ui.chosen_row(&rows)) {
        let words = about(watch, key, agent);
        frame.render_widget(Paragraph::new(words).wrap(Wrap { trim: true }), below);
    }
}

/// The sources of bytes, for all agents together.
pub(crate) fn source_lines(watch: &Watch) -> Vec<String> {
    let (total, (last, span)) = (watch.total(), watch.last());
    let head = "read from    bytes/s  share  since start  share";
    let mut lines = vec![head.to_owned()];
    for source in ByteSource::ALL {
        if source == ByteSource::Bank && total.from(source) == 0 {
            continue;
        }
        lines.push(format!(
            "{:10}  {:>8}  {:>5}  {:>11}  {:>5}",
            source.name(),
            words::bytes(each_second(last.from(source), span)),
            words::percent(last.share(source)),
            words::bytes(total.from(source)),
            words::percent(total.share(source)),
        ));
    }
    lines
}

/// A table of agents: the columns, and the cell of an agent in each.
struct Grid<'a> {
    heads: Vec<String>,
    sorted: Option<usize>,
    #[expect(clippy::type_complexity, reason = "it stands here alone")]
    cell: Box<dyn Fn(&AgentKey, &Watched, usize) -> String + 'a>,
}

/// Bytes by source, for each agent.
fn sources(watch: &Watch) -> Grid<'_> {
    let sources = ByteSource::ALL.into_iter();
    let total = watch.total();
    let sources: Vec<ByteSource> = sources
        .filter(|source| *source != ByteSource::Bank || total.from(*source) > 0)
        .collect();
    let heads = sources.iter().flat_map(|source| {
        let name = source.name();
        [format!("{name}/s"), "now".to_owned(), "ever".to_owned()]
    });
    Grid {
        heads: std::iter::once("agent".to_owned()).chain(heads).collect(),
        sorted: None,
        cell: Box::new(move |key, agent, at| {
            let Some(at) = at.checked_sub(1) else {
                return column::name(watch, key);
            };
            let (source, last) = (sources[at / 3], agent.last.map(|(traffic, _)| traffic));
            match at % 3 {
                0 => words::bytes(agent.each_second(|traffic| traffic.from(source))),
                1 => words::percent(last.and_then(|traffic| traffic.share(source))),
                _ => words::percent(agent.total.share(source)),
            }
        }),
    }
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, watch: &Watch, ui: &Ui, grid: &Grid<'_>) {
    let agents = ui.sort.sorted(watch);
    let columns = grid.heads.len();
    let of = |(key, agent): &(&AgentKey, &Watched)| -> Vec<String> {
        let cells = (0..columns).map(|at| (grid.cell)(key, agent, at));
        cells.collect()
    };
    let cells: Vec<Vec<String>> = agents.iter().map(of).collect();
    let widths = fitting(&grid.heads, &cells, area.width);
    let rows = cells.iter().zip(&agents).map(|(cells, (_, agent))| {
        let cells = cells.iter().take(widths.len()).enumerate();
        let style = if agent.lost.is_some() {
            DIM
        } else {
            Style::new()
        };
        Row::new(cells.map(|(at, cell)| aligned(at, cell))).style(style)
    });
    let heads = grid.heads.iter().take(widths.len()).enumerate();
    let heads = heads.map(|(at, head)| match grid.sorted {
        Some(sorted) if sorted == at => aligned(at, head).style(REVERSED),
        _ => aligned(at, head).style(BOLD),
    });
    let table = Table::new(rows, widths.iter().map(|width| Constraint::Length(*width)))
        .header(Row::new(heads))
        .column_spacing(GAP)
        .row_highlight_style(REVERSED);
    let chosen = ui.chosen_row(&agents);
    let mut state = TableState::new().with_selected(Some(chosen));
    frame.render_stateful_widget(table, area, &mut state);
}

/// Names to the left, numbers to the right.
fn aligned(at: usize, text: &str) -> Cell<'static> {
    let line = Line::from(text.to_owned());
    match at {
        0 => Cell::from(line),
        _ => Cell::from(line.right_aligned()),
    }
}

/// Widths of the columns that fit, the first at least.
fn fitting(heads: &[String], rows: &[Vec<String>], most: u16) -> Vec<u16> {
    let mut widths: Vec<u16> = Vec::new();
    let mut used = 0;
    for (at, head) in heads.iter().enumerate() {
        let cells = rows.iter().filter_map(|row| row.get(at));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        let width = widest.max(head.len()).max(6);
        let width = u16::try_from(width).unwrap_or(u16::MAX);
        used += u32::from(width) + u32::from(GAP);
        // The last column has no gap behind it.
        if at > 0 && used > u32::from(most) + u32::from(GAP) {
            break;
        }
        widths.push(width);
    }
    widths
}

/// More of one agent than the table has room for.
fn about(watch: &Watch, key: &AgentKey, agent: &Watched) -> String {
    let name = column::name(watch, key);
    let pid = agent
        .pid
        .map_or_else(String::new, |pid| format!(", pid {pid}"));
    if let Some(why) = &agent.lost {
        return format!("agent {name}{pid}: {why}");
    }
    let status = &agent.status;
    let used = words::bytes(status.pool_used_bytes);
    let of = words::bytes(status.pool_bytes);
    let step = status.longest_step_us / 1000;
    format!(
        "agent {name}{pid}, {}: pool {used} of {of}, {} files, longest step {step} ms",
        agent.mount, status.files
    )
}

fn draw_alarms(frame: &mut Frame<'_>, area: Rect, watch: &Watch, ui: &Ui) {
    let lines = alarms::lines(watch).into_iter().skip(ui.line);
    let lines: Vec<Line<'_>> = lines.map(Line::from).collect();
    let words = Paragraph::new(lines).wrap(Wrap { trim: false });
    frame.render_widget(words, area);
}
