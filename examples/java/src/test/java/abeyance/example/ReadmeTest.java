package abeyance.example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The README's code and commands, run as they stand. */
@Timeout(120)
class ReadmeTest {
    private final List<Process> started = new ArrayList<>();
    private Path directory;
    private Broker broker;
    private String readme;

    @BeforeEach
    void prepare() throws Exception {
        directory = Files.createTempDirectory("abeyance-readme");
        broker = new Broker();
        readme = Files.readString(Path.of("README.md"));
        Files.createSymbolicLink(directory.resolve("target"), Path.of("target").toAbsolutePath());
        Files.createSymbolicLink(
                directory.resolve("abeyance"), Path.of(Broker.command()).toAbsolutePath());
    }

    @AfterEach
    void end() throws Exception {
        for (Process process : started) {
            process.descendants().forEach(ProcessHandle::destroyForcibly);
            process.destroyForcibly().onExit().join();
        }
        broker.close();
        Fixture.delete(directory);
    }

    private BufferedReader run(String command, String resolver) throws IOException {
        ProcessBuilder builder = new ProcessBuilder("sh", "-c", command)
                .directory(directory.toFile())
                .redirectError(ProcessBuilder.Redirect.INHERIT);
        builder.environment().put("ABEYANCE_SERVER", "http://" + broker.address());
        builder.environment().put("RESOLVER", resolver);
        builder.environment().merge("PATH", directory.toString(), (path, first) -> first + ":" + path);
        Process process = builder.start();
        started.add(process);
        return process.inputReader();
    }

    /** The one line of the README that ends so. */
    private String command(String end) {
        List<String> lines = readme.lines().filter(l -> l.endsWith(end)).toList();
        assertEquals(1, lines.size(), end);
        return lines.get(0);
    }

    @Test
    void theStartRunsAsItStands() throws Exception {
        Matcher block = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL).matcher(readme);
        assertTrue(block.find());
        Files.writeString(directory.resolve("Start.java"), block.group(1));
        BufferedReader worker = run(command(" Start.java"), "");
        String resolve = worker.readLine();
        assertTrue(resolve.startsWith("abeyance resolve abey_"), resolve);
        run(resolve, "");
        assertEquals("true", worker.readLine());
        assertTrue(started.get(0).waitFor(30, TimeUnit.SECONDS));
        assertEquals(0, started.get(0).exitValue());
    }

    @Test
    void theServiceAndTheWorkerRunAsTheyStand() throws Exception {
        String line = run(command("ResolverService"), "http://127.0.0.1:0").readLine();
        String address = line.substring("resolver on ".length());
        BufferedReader worker = run(command("RefundWorker 50"), address);
        String last = worker.lines().reduce((one, next) -> next).orElseThrow();
        assertEquals("approved: issue_refund({\"order\":\"\",\"amount\":50}) runs", last);
    }
}
