//! Extracts the program's commands from documents and help texts, as a shell would parse them.

/// Command lines after `$ `, with continuation lines.
pub fn lines(console: &str) -> Vec<String> {
    let joined = console.replace("\\\n", " ");
    joined.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect()
}

/// The program's image, without a tag.
const IMAGE: &str = "ghcr.io/supercargo/supercargo:";

/// The program's commands in a script, without redirections.
pub fn program_commands(script: &str) -> Vec<Vec<String>> {
    let script = script.replace("\\\n", " ");
    script.lines().flat_map(|line| simple_commands(line).into_iter().filter_map(program_command)).collect()
}

/// The simple commands of a line, separated by `|`, `&&`, `||`, `&` and `;`.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let words = shlex::split(line).unwrap_or_else(|| panic!("invalid shell syntax: {line}"));
    let mut all = vec![Vec::new()];
    for word in words {
        let (word, ends) = match word.strip_suffix(';') {
            Some(word) => (word.to_owned(), true),
            None => (word, false),
        };
        let is_operator = ["|", "&&", "||", "&", ""].contains(&word.as_str());
        if !is_operator {
            all.last_mut().unwrap().push(word);
        }
        if is_operator || ends {
            all.push(Vec::new());
        }
    }
    all
}

/// The program's command from its name on, if this is one.
fn program_command(words: Vec<String>) -> Option<Vec<String>> {
    let is_variable = |word: &String| {
        word.split_once('=')
            .is_some_and(|(name, _)| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
    };
    let words: Vec<_> = words.into_iter().skip_while(is_variable).collect();
    let runs_image =
        matches!(words.first()?.as_str(), "docker" | "podman" | "nerdctl") && words.get(1)? == "run";
    let args = match words.first()?.as_str() {
        "supercargo" => words.get(1..)?,
        "cargo" if words.get(1)? == "run" => words.split(|word| word == "--").nth(1)?,
        _ if runs_image => {
            let image = words.iter().position(|word| word.starts_with(IMAGE))?;
            words.get(image + 1..)?
        }
        _ => return None,
    };
    let is_redirection =
        |word: &&String| word.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(['>', '<']);
    let args = args.iter().take_while(|word| !is_redirection(word)).cloned();
    Some(std::iter::once("supercargo".to_owned()).chain(args).collect())
}

#[test]
fn commands_of_the_program_are_found_in_shell_syntax() {
    let found =
        |script: &str| program_commands(script).iter().map(|words| words.join(" ")).collect::<Vec<_>>();
    assert_eq!(found("supercargo list trails | head -1"), ["supercargo list trails"]);
    assert_eq!(
        found("kubectl get pods | supercargo agent --pods-from - >f"),
        ["supercargo agent --pods-from -"]
    );
    assert_eq!(
        found("A=b supercargo man x && supercargo man \\\n y"),
        ["supercargo man x", "supercargo man y"]
    );
    assert_eq!(found("cargo run -- demo 2>/dev/null"), ["supercargo demo"]);
    assert_eq!(
        found("docker run --rm ghcr.io/supercargo/supercargo:0.1.0 agent --once"),
        ["supercargo agent --once"]
    );
    assert_eq!(found("helm install supercargo x; echo supercargo"), [""; 0]);
    assert_eq!(lines("$ a \\\n  b\noutput\n$ c\n"), ["a    b", "c"]);
}
