package abeyance.example;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.Writer;
import java.util.ArrayList;
import java.util.List;

/** {@code tests/interop/fault_proxy.py} before a broker. */
final class FaultProxy implements AutoCloseable {
    private final Process process;
    private final BufferedReader events;
    private final Writer commands;
    private final String address;

    FaultProxy(Broker broker, String... options) throws IOException {
        String program = Broker.REPOSITORY + "/tests/interop/fault_proxy.py";
        List<String> command = new ArrayList<>(List.of("python3", program, "--target", broker.address()));
        command.addAll(List.of(options));
        process = new ProcessBuilder(command)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        events = process.inputReader();
        commands = process.outputWriter();
        address = next().get("listen").getAsString();
    }

    String address() {
        return address;
    }

    /** Carries out a command. */
    void tell(String command) throws IOException {
        commands.write(command + "\n");
        commands.flush();
        await("done");
    }

    /** Waits for the next event of a kind. */
    void await(String event) throws IOException {
        while (!next().get("event").getAsString().equals(event)) {}
    }

    private JsonObject next() throws IOException {
        String line = events.readLine();
        if (line == null) {
            throw new IOException("fault_proxy.py has ended");
        }
        return JsonParser.parseString(line).getAsJsonObject();
    }

    @Override
    public void close() {
        process.destroy();
        process.onExit().join();
    }
}
