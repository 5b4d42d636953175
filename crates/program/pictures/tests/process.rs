//! Pictures are converted in processes, whose failures leave them as they are. This program is started again for them.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    if std::env::args().any(|argument| argument == "--list") {
        return std::process::ExitCode::SUCCESS;
    }
    linux::main()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::process::ExitCode;
    use std::sync::Arc;
    use std::time::Duration;

    use anabranch_pictures::{
        Converter, ConverterOptions, MOST_BYTES, Statistics, convert, helper,
    };

    const PICTURE: &[u8] = include_bytes!("pictures/converted/metadata.jpg");
    const PROGRESSIVE: &[u8] = include_bytes!("pictures/unchanged/progressive.jpg");

    pub(crate) fn main() -> ExitCode {
        if let Some(code) = helper() {
            // Here, the process is inside the sandbox.
            return ExitCode::from(code.max(u8::from(!is_isolated())));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(tests());
        ExitCode::SUCCESS
    }

    /// No file, no socket, no process, no executable memory.
    fn is_isolated() -> bool {
        std::fs::File::open("/proc/self/status").is_err()
            && std::fs::read_dir("/").is_err()
            && std::net::TcpStream::connect("127.0.0.1:9")
                .is_err_and(|e| e.raw_os_error() == Some(libc::EPERM))
            && std::net::UdpSocket::bind("127.0.0.1:0")
                .is_err_and(|e| e.raw_os_error() == Some(libc::EPERM))
            && std::process::Command::new("/bin/true").status().is_err()
            && std::thread::Builder::new().spawn(|| ()).is_err()
    }

    fn converter(program: &Path, time: Duration) -> Arc<Converter> {
        let program = program.to_owned();
        Converter::new(ConverterOptions { program, time, ..ConverterOptions::default() })
    }

    /// A program that does this with a picture.
    fn script(folder: &Path, name: &str, does: &str) -> std::path::PathBuf {
        let path = folder.join(name);
        let mut file = std::fs::File::create(&path).unwrap();
        write!(file, "#!/bin/sh\nPATH=/bin:/usr/bin\n{does}\n").unwrap();
        file.set_permissions(std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    async fn tests() {
        let converter = Converter::new(ConverterOptions::default());
        converter.probe().await.unwrap();
        assert_eq!(converter.statistics(), Statistics::default());
        let converted = converter.room(Some(1)).unwrap().convert(PICTURE).await.unwrap();
        assert_eq!(converted, convert(PICTURE).unwrap());
        assert!(converter.room(None).unwrap().convert(PROGRESSIVE).await.is_none());
        let statistics = converter.statistics();
        let counts = (statistics.converted, statistics.unchanged, statistics.failed);
        assert_eq!(counts, (1, 1, 0));
        let bytes = (statistics.bytes_before, statistics.bytes_after);
        assert_eq!(bytes, (PICTURE.len() as u64, converted.len() as u64));
        println!("process: a picture is converted in isolation");
        let all: Vec<_> =
            (0..12).map(|_| converter.room(Some(5000)).unwrap().convert(PICTURE)).collect();
        for converting in all.into_iter().map(tokio::spawn).collect::<Vec<_>>() {
            assert_eq!(converting.await.unwrap().unwrap(), converted);
        }
        println!("process: many at the same time");
        memory_is_bounded(&converter);
        large(&converter).await;
        failures().await;
    }

    /// What waits is bounded.
    fn memory_is_bounded(converter: &Arc<Converter>) {
        assert!(converter.room(Some(MOST_BYTES as u64 + 1)).is_none());
        let mut rooms = Vec::new();
        while let Some(room) = converter.room(None) {
            assert_eq!(room.bytes(), MOST_BYTES);
            rooms.push(room);
        }
        assert_eq!(rooms.len(), 16);
        assert!(converter.room(Some(1)).is_none());
        rooms.pop();
        assert!(converter.room(Some(1)).is_some());
        println!("process: the memory of what waits is bounded");
    }

    /// The largest pictures fit into the limits of the process.
    async fn large(converter: &Arc<Converter>) {
        let picture = image::RgbImage::from_fn(4096, 4096, |x, y| {
            [(x / 16) as u8, (y / 16) as u8, (x ^ y) as u8].into()
        });
        let mut file = Vec::new();
        image::codecs::jpeg::JpegEncoder::new_with_quality(&mut file, 20)
            .encode_image(&picture)
            .unwrap();
        assert!(file.len() < MOST_BYTES, "{}", file.len());
        assert!(converter.room(None).unwrap().convert(&file).await.is_some());
        println!("process: 16 million pixels");
    }

    async fn failures() {
        let folder = tempfile::tempdir().unwrap();
        // Nothing here may wait for that.
        let long = Duration::from_secs(3600);
        let failing = [
            ("dies", "exit 1"),
            ("killed", "head -c 100 >/dev/null; kill -9 $$"),
            ("silent", "cat >/dev/null"),
            ("echoes", "printf '\\0'; cat"),
            ("nonsense", "cat >/dev/null; printf '\\0'; head -c 3000 /dev/urandom"),
            ("endless", "cat >/dev/null; printf '\\0'; cat /dev/zero"),
            ("half", "printf '\\0'; head -c 2000"),
            ("deaf", "exec <&-; printf '\\2no sandbox'"),
            ("unknown", "cat >/dev/null; printf '\\7'"),
        ];
        for (name, does) in failing {
            let converter = converter(&script(folder.path(), name, does), long);
            assert!(converter.room(None).unwrap().convert(PICTURE).await.is_none(), "{name}");
            let statistics = converter.statistics();
            assert_eq!(
                (statistics.converted, statistics.unchanged, statistics.failed),
                (0, 0, 1),
                "{name}"
            );
            assert!(converter.probe().await.is_err(), "{name}");
        }
        let missing = converter(Path::new("/no/such/program"), long);
        assert!(missing.room(None).unwrap().convert(PICTURE).await.is_none());
        println!("process: what fails leaves the picture as it is");
        // It is killed when its time is over: its process identifier is in a file.
        let number = folder.path().join("number");
        let hangs = script(
            folder.path(),
            "hangs",
            &format!("echo $$ >{}; exec sleep 1000", number.display()),
        );
        let converter = converter(&hangs, Duration::from_millis(500));
        assert!(converter.room(None).unwrap().convert(PICTURE).await.is_none());
        let number = std::fs::read_to_string(number).unwrap();
        let process = format!("/proc/{}/cmdline", number.trim());
        let gone = || std::fs::read(&process).map_or(true, |line| line.is_empty());
        while !gone() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(converter.statistics().failed, 1);
        println!("process: one that hangs is killed");
    }
}
