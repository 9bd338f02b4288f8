/* The table of the methods of gRPC. */
#include "serve/grpc/grpc_internal.h"
#include <string.h>

const struct method *method_find(const char *path)
{
    static const struct method methods[] = {
#define SERVICE "/inference.GRPCInferenceService/"
        { SERVICE "ModelInfer", grpc_infer, 1, false, false },
        { SERVICE "ModelStreamInfer", grpc_infer, 1, true, true },
        { SERVICE "ServerLive", grpc_live, 0, false, false },
        { SERVICE "ServerReady", grpc_ready, 0, false, false },
        { SERVICE "ModelReady", grpc_model_ready, 0, false, false },
        { SERVICE "ServerMetadata", grpc_server_metadata, 1, false, false },
        { SERVICE "ModelMetadata", grpc_model_metadata, 1, false, false },
        { SERVICE "ModelConfig", grpc_model_config, 1, false, false },
        { SERVICE "RepositoryIndex", grpc_index, 1, false, false },
        { SERVICE "RepositoryModelLoad", grpc_load, 2, false, false },
        { SERVICE "RepositoryModelUnload", grpc_unload, 2, false, false },
        { SERVICE "ModelStatistics", grpc_statistics, 1, false, false },
        { SERVICE "TraceSetting", grpc_trace_setting, 1, false, false },
        { SERVICE "LogSettings", grpc_log_settings, 1, false, false },
        { SERVICE "SystemSharedMemoryStatus", grpc_shared_status, 1, false, false },
        { SERVICE "SystemSharedMemoryRegister", grpc_shared_register, 1, false, false },
        { SERVICE "SystemSharedMemoryUnregister", grpc_shared_unregister, 1, false, false },
        { SERVICE "CudaSharedMemoryUnregister", grpc_cuda_unregister, 1, false, false },
        { "/grpc.health.v1.Health/Check", grpc_health, 0, false, false },
        { "/grpc.health.v1.Health/Watch", grpc_watch, 0, false, false },
        { "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", grpc_reflection, 1, true, false },
        { "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", grpc_reflection, 1, true, false },
#undef SERVICE
    };

    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (strcmp(methods[i].path, path) == 0)
            return &methods[i];
    return NULL;
}
