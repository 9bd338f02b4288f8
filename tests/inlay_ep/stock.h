/* stock.h - ONNX Runtime's own library with libinlay_ep.so, for the programs of this folder. ORT_LIBRARY is the path of
 * that library. */
#ifndef STOCK_H
#define STOCK_H
#include "ort_test.h"
#include <math.h>

enum { FLOAT = 1, INT32 = 6, INT64 = 7, STRING = 8, BOOL = 9, DOUBLE = 11 };

static const OrtEpDevice *device;

static inline int begin(void **state)
{
    const OrtEpDevice *const *devices = NULL;
    size_t count = 0;

    if (ort_test_begin(state) != 0)
        return -1;
    ok(api->RegisterExecutionProviderLibrary(env, "inlay", EP_LIBRARY));
    ok(api->GetEpDevices(env, &devices, &count));
    for (size_t i = 0; i < count; i++)
        if (strcmp(api->EpDevice_EpName(devices[i]), "InlayExecutionProvider") == 0)
            device = devices[i];
    return device != NULL ? 0 : -1;
}

static inline int end(void **state)
{
    ok(api->UnregisterExecutionProviderLibrary(env, "inlay"));
    return ort_test_end(state);
}

/* Options with inlay's provider; key is one of its options, or NULL. */
static inline OrtSessionOptions *options_with(const char *key, const char *value)
{
    OrtSessionOptions *options = NULL;

    ok(api->CreateSessionOptions(&options));
    ok(api->AddSessionConfigEntry(options, "session.record_ep_graph_assignment_info", "1"));
    ok(api->SessionOptionsAppendExecutionProvider_V2(options, env, &device, 1, &key, &value, key != NULL ? 1 : 0));
    return options;
}

/* The number of nodes that inlay runs, and of its groups. */
static inline size_t nodes_of_inlay(const OrtSession *session, size_t *out_groups)
{
    const OrtEpAssignedSubgraph *const *groups = NULL;
    size_t count = 0, nodes = 0;

    *out_groups = 0;
    ok(api->Session_GetEpGraphAssignmentInfo(session, &groups, &count));
    for (size_t i = 0; i < count; i++) {
        const OrtEpAssignedNode *const *list = NULL;
        const char *name = NULL;
        size_t in_group = 0;

        ok(api->EpAssignedSubgraph_GetEpName(groups[i], &name));
        if (strcmp(name, "InlayExecutionProvider") != 0)
            continue;
        ok(api->EpAssignedSubgraph_GetNodes(groups[i], &list, &in_group));
        nodes += in_group;
        ++*out_groups;
    }
    return nodes;
}

static inline void same_values(const char *name, const OrtValue *left, const OrtValue *right)
{
    const OrtValue *const values[] = { left, right };
    OrtTensorTypeAndShapeInfo *info[2];
    int64_t dims[2][8];
    size_t rank[2], count[2];
    const void *data[2];
    int type[2];

    for (int i = 0; i < 2; i++) {
        ok(api->GetTensorTypeAndShape(values[i], &info[i]));
        ok(api->GetTensorElementType(info[i], &type[i]));
        ok(api->GetDimensionsCount(info[i], &rank[i]));
        assert_true(rank[i] <= 8);
        ok(api->GetDimensions(info[i], dims[i], rank[i]));
        ok(api->GetTensorShapeElementCount(info[i], &count[i]));
        api->ReleaseTensorTypeAndShapeInfo(info[i]);
    }
    assert_int_equal(type[0], type[1]);
    assert_int_equal(rank[0], rank[1]);
    assert_memory_equal(dims[0], dims[1], rank[0] * sizeof dims[0][0]);
    if (type[0] == STRING)
        return;
    for (int i = 0; i < 2; i++)
        ok(api->GetTensorData(values[i], &data[i]));
    if (type[0] != FLOAT) {
        assert_memory_equal(data[0], data[1], count[0] * (type[0] == INT64 ? 8 : 1));
        return;
    }
    for (size_t i = 0; i < count[0]; i++) {
        const float expected = ((const float *)data[0])[i], actual = ((const float *)data[1])[i];

        if (expected == actual || (isnan(expected) && isnan(actual)))
            continue;
        if (!(fabsf(expected - actual) <= 1e-4f * fmaxf(1, fabsf(expected))))
            fail_msg("%s: element %zu is %g, expected %g", name, i, (double)actual, (double)expected);
    }
}
#endif
