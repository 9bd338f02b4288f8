/* Tensors, sequences, maps, sparse tensors, and types. */
#include "calls.h"
#include <algorithm>

static std::vector<int64_t> shape_of(const Ort::Value &value)
{
    return value.GetTensorTypeAndShapeInfo().GetShape();
}

static void strings()
{
    Ort::AllocatorWithDefaultOptions allocator;
    const int64_t two = 2;
    const char *texts[] = { "first", "second" };
    Ort::Value value = Ort::Value::CreateTensor(allocator, &two, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING);
    char buffer[16] = { 0 };
    size_t offsets[2];

    DO(value.FillStringTensor(texts, 2));
    DO(value.FillStringTensor(texts, 1));
    DO(value.FillStringTensorElement("2nd", 1));
    DO(value.FillStringTensorElement("3rd", 2));
    CALL(value.GetStringTensorElement(0));
    CALL(value.GetStringTensorElement(2));
    CALL(value.GetStringTensorElementLength(1));
    DO(value.GetStringTensorElement(5, 0, buffer));
    CALL(value.GetStringTensorDataLength());
    DO(value.GetStringTensorContent(buffer, 8, offsets, 2));
    SHOW(std::string(buffer, 8));
    SHOW(offsets[1]);
    DO(std::copy_n("resized", 7, value.GetResizedStringTensorElementBuffer(0, 7)));
    CALL(value.GetStringTensorElement(0));
    CALL(value.At<float>({ 0 }));
    CALL(value.GetTensorSizeInBytes());
}

/* The elements of tensors of strings as objects. */
static void string_objects()
{
    static const int64_t two[] = { 2 };
    static onnx_bytes graph, file;
    Ort::AllocatorWithDefaultOptions allocator;
    const std::string long_text = "a text with more than fifteen characters", *read = nullptr;
    const char *inputs[] = { "x" }, *outputs[] = { "y" };
    Ort::Value value = Ort::Value::CreateTensor(allocator, two, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING);
    std::string *texts = nullptr;

    DO(value.FillStringTensorElement("set", 0));
    DO(texts = value.GetTensorMutableData<std::string>());
    SHOW(texts[0]);
    DO(texts[0] = long_text);
    DO(texts[1] += "short");
    CALL(value.GetStringTensorElement(0));
    DO(value.FillStringTensorElement("set again", 0));
    SHOW(texts[0]);
    DO(std::swap(texts[0], texts[1]));
    CALL(value.GetStringTensorElement(0));
    CALL(value.GetStringTensorElement(1));
    DO(texts[0].clear());
    DO(texts[1] = long_text);
    onnx_node(&graph, "Identity", "", "x", "y");
    onnx_input(&graph, "x", INLAY_STRING, 1, two);
    onnx_output(&graph, "y", INLAY_STRING, 1, two);
    if (onnx_file(&file, &graph, 17, nullptr) != 0)
        std::abort();
    Ort::Session session = open(file, Ort::SessionOptions());
    std::vector<Ort::Value> results = session.Run(Ort::RunOptions(), inputs, &value, 1, outputs, 1);
    CALL(results[0].GetStringTensorElement(1));
    DO(read = results[0].GetTensorData<std::string>());
    SHOW(read[0].size());
    SHOW(read[1]);
    DO(results[0].GetTensorMutableData<std::string>()[0] = "of a result");
    CALL(results[0].GetStringTensorElement(0));
    DO(results[0].FillStringTensorElement("changed", 1));
    CALL(results[0].GetStringTensorElement(1));
    DO(session.Run(Ort::RunOptions(), inputs, &value, 1, outputs, &results[0], 1));
    CALL(results[0].GetStringTensorElement(1));
}

void values()
{
    Ort::AllocatorWithDefaultOptions allocator;
    std::vector<float> data = { 1, 2, 3, 4, 5, 6 };
    const int64_t shape[] = { 2, 3 }, negative[] = { -1, 3 };
    Ort::Value value = tensor(data, { 2, 3 });
    Ort::Value::Shape reference{};
    ONNXTensorElementDataType type{};

    CALL(value.IsTensor());
    CALL(value.IsSparseTensor());
    CALL(value.HasValue());
    CALL(shape_of(value));
    CALL(value.GetTensorTypeAndShapeInfo().GetElementType());
    CALL(value.GetTensorTypeAndShapeInfo().GetElementCount());
    CALL(value.GetTensorTypeAndShapeInfo().GetDimensionsCount());
    CALL(value.GetTensorTypeAndShapeInfo().GetSymbolicDimensions());
    CALL(value.GetTensorTypeAndShapeInfo().HasShape());
    CALL(value.GetTensorSizeInBytes());
    CALL(value.GetTensorMemoryInfo().GetAllocatorName());
    CALL(value.At<float>({ 1, 2 }));
    CALL(value.At<float>({ 2, 0 }));
    CALL(value.At<float>({ 0 }));
    CALL(value.GetTensorData<float>() == data.data());
    CALL(value.GetTensorRawData() == data.data());
    CALL(value.GetTensorMutableRawData() == data.data());
    CALL(value.GetTensorMutableData<float>()[5]);
    DO(value.GetTensorElementTypeAndShapeDataReference(type, reference));
    SHOW(std::vector<int64_t>(reference.shape, reference.shape + reference.shape_len));
    CALL(value.GetCount());
    CALL(value.GetValue(0, allocator));
    CALL(value.GetStringTensorElement(0));
    CALL(Ort::Value::CreateTensor<float>(cpu(), data.data(), 5, shape, 2));
    CALL(Ort::Value::CreateTensor<float>(cpu(), data.data(), 6, negative, 2));
    CALL(Ort::Value::CreateTensor(cpu(), data.data(), 24, shape, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
    CALL(Ort::Value::CreateTensor(cpu(), data.data(), 24, shape, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED));
    CALL(Ort::Value::CreateTensor<double>(allocator, shape, 2));
    CALL(shape_of(Ort::Value::CreateTensor<int64_t>(allocator, shape, 0)));
    CALL(Ort::Value::CreateTensor(allocator, allocator.Alloc(24), 24, shape, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
    strings();
    string_objects();

    std::vector<Ort::Value> parts;
    parts.push_back(tensor(data, { 6 }));
    parts.push_back(tensor(data, { 3, 2 }));
    Ort::Value sequence = Ort::Value::CreateSequence(parts);
    CALL(sequence.GetCount());
    CALL(shape_of(sequence.GetValue(1, allocator)));
    CALL(sequence.GetValue(2, allocator));
    CALL(sequence.IsTensor());
    CALL(sequence.GetTypeInfo().GetONNXType());
    CALL(sequence.GetTypeInfo().GetSequenceTypeInfo().GetSequenceElementType().GetONNXType());
    CALL(sequence.GetTensorTypeAndShapeInfo());
    CALL(Ort::Value::CreateSequence({}));
    std::vector<int64_t> keys = { 10, 20, 30, 40, 50, 60 };
    const int64_t six = 6;
    Ort::Value key_tensor = Ort::Value::CreateTensor<int64_t>(cpu(), keys.data(), 6, &six, 1);
    Ort::Value map = Ort::Value::CreateMap(key_tensor, parts[0]);
    CALL(map.GetCount());
    CALL(map.GetValue(0, allocator).GetTensorData<int64_t>()[5]);
    CALL(floats(map.GetValue(1, allocator)));
    CALL(map.GetValue(2, allocator));
    CALL(map.GetTypeInfo().GetMapTypeInfo().GetMapKeyType());
    CALL(map.GetTypeInfo().GetMapTypeInfo().GetMapValueType().GetTensorTypeAndShapeInfo().GetElementType());
    CALL(Ort::Value::CreateMap(parts[0], key_tensor));

    std::vector<float> target(6);
    std::vector<Ort::Value> from, to;
    from.push_back(tensor(data, { 6 }));
    to.push_back(tensor(target, { 6 }));
    CALL(environment().CopyTensors(from, to, nullptr));
    SHOW(target);
    CALL(environment().CopyTensor(from[0], to[0], nullptr));
}

void types()
{
    using Ort::TypeInfo;
    std::vector<std::string> symbols = { "rows", "" };
    Ort::TensorTypeAndShapeInfo info(ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, { -1, 4 }, &symbols);
    TypeInfo of_tensor = TypeInfo::CreateTensorInfo(info.GetConst());

    CALL(info.GetShape());
    CALL(info.GetSymbolicDimensions());
    CALL(info.GetElementCount());
    CALL(info.GetElementType());
    CALL(of_tensor.GetONNXType());
    CALL(of_tensor.GetTensorTypeAndShapeInfo().GetShape());
    CALL(TypeInfo::CreateSparseTensorInfo(info.GetConst()).GetONNXType());
    CALL(TypeInfo::CreateSequenceTypeInfo(of_tensor.GetConst()).GetONNXType());
    CALL(TypeInfo::CreateSequenceTypeInfo(of_tensor.GetConst())
             .GetSequenceTypeInfo()
             .GetSequenceElementType()
             .GetTensorTypeAndShapeInfo()
             .GetElementType());
    CALL(TypeInfo::CreateMapTypeInfo(ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, of_tensor.GetConst())
             .GetMapTypeInfo()
             .GetMapKeyType());
    CALL(TypeInfo::CreateOptionalTypeInfo(of_tensor.GetConst())
             .GetOptionalTypeInfo()
             .GetOptionalElementType()
             .GetONNXType());
    CALL(of_tensor.GetMapTypeInfo() == nullptr);
    CALL(of_tensor.GetSequenceTypeInfo() == nullptr);
}

void sparse_values()
{
    using Ort::Value;
    Ort::AllocatorWithDefaultOptions allocator;
    const int64_t dense_dims[] = { 3, 3 }, count_dims[] = { 2 }, index_dims[] = { 2, 2 }, block_dims[] = { 2, 1, 1 };
    Value::Shape dense{ dense_dims, 2 }, count{ count_dims, 1 };
    std::vector<float> data = { 5, 7 };
    std::vector<int64_t> linear = { 1, 8 }, inner = { 1, 2 }, outer = { 0, 1, 1, 2 };
    std::vector<int32_t> blocks = { 0, 1, 2, 2 };
    size_t indices = 0;

    Value coo = Value::CreateSparseTensor<float>(cpu(), data.data(), dense, count);
    DO(coo.UseCooIndices(linear.data(), linear.size()));
    CALL(coo.IsSparseTensor());
    CALL(coo.IsTensor());
    CALL(coo.GetSparseFormat());
    CALL(coo.GetTensorTypeAndShapeInfo().GetShape());
    CALL(coo.GetSparseTensorValuesTypeAndShapeInfo().GetShape());
    CALL(coo.GetSparseTensorIndicesTypeShapeInfo(ORT_SPARSE_COO_INDICES).GetShape());
    CALL(coo.GetSparseTensorIndicesData<int64_t>(ORT_SPARSE_COO_INDICES, indices)[1]);
    SHOW(indices);
    CALL(coo.GetSparseTensorValues<float>()[1]);
    CALL(coo.GetSparseTensorIndicesTypeShapeInfo(ORT_SPARSE_CSR_INNER_INDICES));
    Value csr = Value::CreateSparseTensor<float>(cpu(), data.data(), dense, count);
    DO(csr.UseCsrIndices(inner.data(), inner.size(), outer.data(), outer.size()));
    CALL(csr.GetSparseFormat());
    CALL(csr.GetSparseTensorIndicesTypeShapeInfo(ORT_SPARSE_CSR_OUTER_INDICES).GetShape());
    Value block = Value::CreateSparseTensor<float>(cpu(), data.data(), dense, { block_dims, 3 });
    DO(block.UseBlockSparseIndices({ index_dims, 2 }, blocks.data()));
    CALL(block.GetSparseFormat());
    Ort::detail::OrtSparseValuesParam param{ count_dims, 1, { data.data() } };
    Value filled = Value::CreateSparseTensor<float>(allocator, dense);
    DO(filled.FillSparseTensorCoo(cpu(), param, linear.data(), linear.size()));
    CALL(filled.GetSparseTensorValues<float>()[0]);
    Value filled_csr = Value::CreateSparseTensor<float>(allocator, dense);
    DO(filled_csr.FillSparseTensorCsr(cpu(), param, inner.data(), inner.size(), outer.data(), outer.size()));
    CALL(filled_csr.GetSparseFormat());
    Ort::detail::OrtSparseValuesParam block_param{ block_dims, 3, { data.data() } };
    Value filled_block = Value::CreateSparseTensor<float>(allocator, dense);
    DO(filled_block.FillSparseTensorBlockSparse(cpu(), block_param, { index_dims, 2 }, blocks.data()));
    CALL(filled_block.GetSparseFormat());
    CALL(Value::CreateOpaque<int>("domain", "type", 1));
    int opaque = 0;
    DO(coo.GetOpaqueData("domain", "type", opaque));
}
