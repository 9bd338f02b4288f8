import ai.onnxruntime.NodeInfo;
import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OnnxValue;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import ai.onnxruntime.TensorInfo;
import java.nio.FloatBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * Runs a model whose inputs are tensors of float: each is filled with ones, and a dimension without a fixed size is 1.
 * Prints the first elements of each output.
 *
 * <p>The program is written to the Java interface of ONNX Runtime and names nothing of inlay.
 */
public class RunModel {
  private static OnnxTensor ones(OrtEnvironment environment, TensorInfo info) throws OrtException {
    long[] shape = Arrays.stream(info.getShape()).map(size -> size < 0 ? 1 : size).toArray();
    float[] elements = new float[(int) Arrays.stream(shape).reduce(1, (left, right) -> left * right)];

    Arrays.fill(elements, 1);
    return OnnxTensor.createTensor(environment, FloatBuffer.wrap(elements), shape);
  }

  private static void print(String name, OnnxTensor tensor) {
    FloatBuffer elements = tensor.getFloatBuffer();
    float[] first = new float[Math.min(5, elements.remaining())];

    elements.get(first);
    System.out.println(
        name + Arrays.toString(tensor.getInfo().getShape()) + " " + Arrays.toString(first));
  }

  public static void main(String[] arguments) throws OrtException {
    if (arguments.length != 1) {
      System.err.println("usage: RunModel MODEL.onnx");
      System.exit(2);
    }
    OrtEnvironment environment = OrtEnvironment.getEnvironment();
    Map<String, OnnxTensor> inputs = new HashMap<>();
    try (OrtSession session = environment.createSession(arguments[0])) {
      for (NodeInfo input : session.getInputInfo().values()) {
        inputs.put(input.getName(), ones(environment, (TensorInfo) input.getInfo()));
      }
      try (OrtSession.Result results = session.run(inputs)) {
        for (Map.Entry<String, OnnxValue> output : results) {
          print(output.getKey(), (OnnxTensor) output.getValue());
        }
      }
    } finally {
      OnnxValue.close(inputs);
    }
  }
}
