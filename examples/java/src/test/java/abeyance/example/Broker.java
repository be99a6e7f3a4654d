package abeyance.example;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** A real broker, with its data in a directory of its own, that can be killed and started again. */
final class Broker implements AutoCloseable {
    static final Path REPOSITORY = Path.of("../..").toAbsolutePath().normalize();

    private final Path data;
    private Process process;
    private String address = "127.0.0.1:0";

    Broker() throws IOException {
        data = Files.createTempDirectory("abeyance-java");
        start();
    }

    /** The command, from {@code ABEYANCE_BIN}. */
    static String command() {
        String binary = System.getenv().getOrDefault("ABEYANCE_BIN", REPOSITORY + "/target/debug/abeyance");
        if (!Files.isExecutable(Path.of(binary))) {
            throw new IllegalStateException("no broker at " + binary + "; build it, or set ABEYANCE_BIN");
        }
        return binary;
    }

    /** Starts it, again at the address that it had. Returns once it serves. */
    void start() throws IOException {
        List<String> serve = List.of(
                command(), "serve", "--listen", address, "--data-dir", data.toString(), "--alive-interval", "1s");
        process = new ProcessBuilder(serve)
                .redirectError(ProcessBuilder.Redirect.appendTo(new File("target/broker.log")))
                .start();
        BufferedReader out = process.inputReader();
        String line = out.readLine();
        if (line == null || !line.startsWith("listening on ")) {
            throw new IOException("the broker did not start: " + line + "; see target/broker.log");
        }
        address = line.substring("listening on ".length());
    }

    String address() {
        return address;
    }

    /** Ends it as {@code kill -9} does. */
    void kill() {
        process.destroyForcibly().onExit().join();
    }

    @Override
    public void close() throws IOException {
        kill();
        Fixture.delete(data);
    }
}
