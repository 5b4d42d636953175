//! Programs that execute transfers with their own stack.

use super::stack::{Over, Platform};
use crate::tree::{Checked, Fields, problem};

/// A program that executes transfers, as a pair of shell command lines.
///
/// `docs/lab.md` describes its input and output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The name by which transfers refer to it.
    pub name: String,
    /// The command line of the receiver.
    pub receiver: String,
    /// The command line of the sender.
    pub sender: String,
    /// The command that builds or installs it, for users who do not have it.
    pub made_by: Option<String>,
}

/// Maximum number of programs in a scenario: more than anyone would compare.
const MOST: usize = 16;

/// Reads `[program.NAME]`.
pub(super) fn read_programs(root: &Fields<'_>) -> Checked<Vec<Program>> {
    let tables = root.tables("program")?;
    if let Some((_, fields)) = tables.get(MOST) {
        return problem(fields.line(), format!("there are more than {MOST} programs"));
    }
    let program = |(name, fields): (&str, Fields<'_>)| {
        if Over::NAMES.iter().any(|(taken, _)| *taken == name) {
            let reason = format!("no program is called {name}: that is what transfers go over");
            return problem(fields.line(), reason);
        }
        let program = Program {
            name: name.to_owned(),
            receiver: fields.required_text("receiver")?.to_owned(),
            sender: fields.required_text("sender")?.to_owned(),
            made_by: fields.text("made_by")?.map(str::to_owned),
        };
        fields.finish()?;
        Ok(program)
    };
    tables.into_iter().map(program).collect()
}

/// The transport of a transfer: a name of [`Over`], or in the emulator, of a program.
pub(super) fn over(fields: &Fields<'_>, programs: &[Program], on: Platform) -> Checked<Over> {
    let mut words = Over::NAMES.to_vec();
    let own = programs.iter().enumerate();
    words.extend(own.map(|(index, program)| (program.name.as_str(), Over::Program(index))));
    let over = fields.choice("over", &words)?.unwrap_or_default();
    if let (Over::Program(_), Platform::Simulator) = (over, on) {
        let reason =
            format!("{} is a program: it takes run.on = \"emulator\"", fields.name("over"));
        return problem(fields.line_of("over"), reason);
    }
    Ok(over)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SMALL, read};
    use super::*;
    use crate::tree::tests::refused;

    #[test]
    fn programs_are_what_transfers_go_over() {
        let small = SMALL.replace("[association]\nprofile = \"rfc2960\"\n", "");
        let program = "[program.quic]\nreceiver = \"q -l\"\nsender = \"q\"\n";
        let on = "[run]\non = \"emulator\"\n";
        let text = format!("{small}over = \"quic\"\n{program}");
        // No association is needed.
        let setup = read(&format!("{text}made_by = \"make\"\n{on}")).unwrap();
        assert_eq!(setup.transfers[0].over, Over::Program(0));
        let made = Program {
            name: "quic".into(),
            receiver: "q -l".into(),
            sender: "q".into(),
            made_by: Some("make".into()),
        };
        assert_eq!(setup.programs, [made]);
        let messages = text.replace("size = \"4 MiB\"", "count = 3\ninterval = \"1 s\"");
        let cases = [
            (text.clone(), 16, "over is a program: it takes run.on = \"emulator\""),
            (format!("{messages}{on}"), 17, "a transfer over a program has a size"),
            (
                format!("{}{on}", text.replace("over = \"quic\"", "over = \"q\"")),
                16,
                "sctp, tcp, quic",
            ),
            (
                format!("{}{on}", text.replace("program.quic", "program.tcp")),
                17,
                "no program is called tcp",
            ),
            (
                format!("{}{on}", text.replace("sender = \"q\"", "send = \"q\"")),
                17,
                "sender is missing",
            ),
        ];
        for (text, line, reason) in cases {
            refused(read(&text), line, reason);
        }
    }
}
