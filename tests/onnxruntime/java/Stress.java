import ai.onnxruntime.OnnxSparseTensor;
import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OnnxTensorLike;
import ai.onnxruntime.OnnxJavaType;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.LongBuffer;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Runs a model that returns its input, float[1,5], from several threads with right and wrong inputs,
 * while another thread closes the session and opens it again. By hand:
 *
 * <pre>java -cp classes -Donnxruntime.native.path=LIBRARIES Stress.java MODEL RUNS THREADS</pre>
 *
 * Prints the number of runs that succeeded. A wrong result or a wrong input that is accepted ends
 * the program with status 1.
 */
public class Stress {
  private static final OrtEnvironment environment = OrtEnvironment.getEnvironment();
  private static final float[][] VALUES = {{1, 2, 3, 4, 5}};
  private static final int KINDS = 12;
  private static volatile OrtSession session;
  private static volatile boolean done;

  private static OnnxTensorLike sparse() throws OrtException {
    LongBuffer indices = ByteBuffer.allocateDirect(8).order(ByteOrder.nativeOrder()).asLongBuffer();
    FloatBuffer values = ByteBuffer.allocateDirect(4).order(ByteOrder.nativeOrder()).asFloatBuffer();
    return OnnxSparseTensor.createSparseTensor(
        environment,
        new OnnxSparseTensor.COOTensor(
            indices, new long[] {1}, values, new long[] {1, 5}, OnnxJavaType.FLOAT, 1));
  }

  /** The input of a kind; kind 0 and kind 1 are right. */
  private static Map<String, OnnxTensorLike> inputs(int kind, String name) throws OrtException {
    Map<String, OnnxTensorLike> map = new HashMap<>();
    switch (kind) {
      case 2:
        map.put("no such input", OnnxTensor.createTensor(environment, VALUES));
        break;
      case 3:
        map.put(name, OnnxTensor.createTensor(environment, new long[][] {{1, 2, 3, 4, 5}}));
        break;
      case 4:
        map.put(name, OnnxTensor.createTensor(environment, new float[] {1, 2, 3, 4, 5}));
        break;
      case 5:
        map.put(name, OnnxTensor.createTensor(environment, new float[][] {{1, 2, 3}}));
        break;
      case 6:
        map.put(name, OnnxTensor.createTensor(environment, new float[1][5]));
        map.put("extra", OnnxTensor.createTensor(environment, VALUES));
        break;
      case 7:
        break;
      case 8:
        map.put(name, OnnxTensor.createTensor(environment, new String[][] {{"a", "b", "c", "d", "e"}}));
        break;
      case 9:
        map.put(name, sparse());
        break;
      case 10:
        OnnxTensor closed = OnnxTensor.createTensor(environment, VALUES);
        closed.close();
        map.put(name, closed);
        break;
      case 11:
        map.put(name, OnnxTensor.createTensor(environment, 3.5f));
        break;
      default:
        map.put(name, OnnxTensor.createTensor(environment, VALUES));
    }
    return map;
  }

  private static boolean run(int kind, String name, Set<String> outputs) throws OrtException {
    Map<String, OnnxTensorLike> inputs = inputs(kind, name);
    try (OrtSession.Result result =
        kind == 1 ? session.run(inputs, outputs) : session.run(inputs)) {
      if (!Arrays.equals(((float[][]) result.get(0).getValue())[0], VALUES[0])) {
        throw new AssertionError("a run of kind " + kind + " has a wrong result");
      }
      return true;
    } catch (OrtException | IllegalStateException refused) {
      return false;
    } finally {
      for (OnnxTensorLike input : inputs.values()) {
        if (kind != 10) {
          input.close();
        }
      }
    }
  }

  private static void runAll(long runs, String name, Set<String> outputs, AtomicLong accepted) {
    try {
      for (long i = 0; i < runs; i++) {
        int kind = (int) (i % KINDS);
        boolean ok = run(kind, name, outputs);
        if (ok && kind > 1) {
          throw new AssertionError("kind " + kind + " was accepted");
        }
        accepted.addAndGet(ok ? 1 : 0);
      }
    } catch (OrtException | RuntimeException | AssertionError failure) {
      failure.printStackTrace();
      Runtime.getRuntime().halt(1);
    }
  }

  public static void main(String[] arguments) throws Exception {
    String model = arguments[0];
    long runs = Long.parseLong(arguments[1]);
    Thread[] threads = new Thread[Integer.parseInt(arguments[2])];
    AtomicLong accepted = new AtomicLong();
    long sessions = 1;
    session = environment.createSession(model);
    String name = session.getInputNames().iterator().next();
    Set<String> outputs = Collections.singleton(session.getOutputNames().iterator().next());
    for (int i = 0; i < threads.length; i++) {
      threads[i] = new Thread(() -> runAll(runs / threads.length, name, outputs, accepted));
      threads[i].start();
    }
    Thread waiter =
        new Thread(
            () -> {
              try {
                for (Thread thread : threads) {
                  thread.join();
                }
              } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
              }
              done = true;
            });
    waiter.start();
    while (!done) {
      OrtSession old = session;
      session = environment.createSession(model);
      old.close();
      sessions++;
    }
    System.out.println(
        runs + " runs, " + accepted + " succeeded, " + sessions + " sessions were closed meanwhile");
  }
}
