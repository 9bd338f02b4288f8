/* What a program can read of the graphs and nodes that it has built (OrtModelEditorApi). ONNX Runtime answers the same
 * questions; it refuses the others, and so does table.c. */
#include "editor.h"

#define COUNT(object, name, member)                                                                                    \
    OrtStatus *ort_##name(const Ort##object *from, size_t *out)                                                        \
    {                                                                                                                  \
        ORT_NEED(from);                                                                                                \
        ORT_NEED(out);                                                                                                 \
        *out = from->member;                                                                                           \
        return NULL;                                                                                                   \
    }
#define TEXT(object, name, text)                                                                                       \
    OrtStatus *ort_##name(const Ort##object *from, const char **out)                                                   \
    {                                                                                                                  \
        ORT_NEED(from);                                                                                                \
        ORT_NEED(out);                                                                                                 \
        *out = text;                                                                                                   \
        return NULL;                                                                                                   \
    }

/* ONNX Runtime's name of every built graph. The model has no path before it is saved. */
TEXT(Graph, Graph_GetName, "ModelEditorGraph")
TEXT(Graph, Graph_GetModelPath, "")
COUNT(Graph, Graph_GetNumInputs, input_count)
COUNT(Graph, Graph_GetNumOutputs, output_count)
COUNT(Graph, Graph_GetNumInitializers, initializer_count)
COUNT(Graph, Graph_GetNumNodes, node_count)

COUNT(Node, Node_GetId, id)
TEXT(Node, Node_GetName, from->name)
TEXT(Node, Node_GetOperatorType, from->op)
TEXT(Node, Node_GetDomain, from->domain)
COUNT(Node, Node_GetNumInputs, input_count)
COUNT(Node, Node_GetNumOutputs, output_count)
COUNT(Node, Node_GetNumAttributes, attr_count)

ORT_GETTER(ort_Graph_GetOnnxIRVersion, const OrtGraph *, graph, int64_t, onnx_ir_version, BUILT_IR_VERSION)

OrtStatus *ort_Graph_GetModelMetadata(const OrtGraph *graph, OrtModelMetadata **out)
{
    ORT_NEED(graph);
    ORT_NEED(out);
    return ort_metadata_empty(out);
}
