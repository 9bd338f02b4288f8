/* The table of the methods of gRPC. */
#include "serve/grpc/grpc_internal.h"
#include <string.h>

const struct method *method_find(const char *path)
{
    static const struct method methods[] = {
#define SERVICE "/inference.GRPCInferenceService/"
        { SERVICE "ModelInfer", grpc_infer, ACCESS_USERS, false, false },
        { SERVICE "ModelStreamInfer", grpc_infer, ACCESS_USERS, true, true },
        { SERVICE "ServerLive", grpc_live, ACCESS_EVERYONE, false, false },
        { SERVICE "ServerReady", grpc_ready, ACCESS_EVERYONE, false, false },
        { SERVICE "ModelReady", grpc_model_ready, ACCESS_EVERYONE, false, false },
        { SERVICE "ServerMetadata", grpc_server_metadata, ACCESS_USERS, false, false },
        { SERVICE "ModelMetadata", grpc_model_metadata, ACCESS_USERS, false, false },
        { SERVICE "ModelConfig", grpc_model_config, ACCESS_USERS, false, false },
        { SERVICE "RepositoryIndex", grpc_index, ACCESS_USERS, false, false },
        { SERVICE "RepositoryModelLoad", grpc_load, ACCESS_ADMINS, false, false },
        { SERVICE "RepositoryModelUnload", grpc_unload, ACCESS_ADMINS, false, false },
        { SERVICE "ModelStatistics", grpc_statistics, ACCESS_USERS, false, false },
        { SERVICE "TraceSetting", grpc_trace_setting, ACCESS_USERS, false, false },
        { SERVICE "LogSettings", grpc_log_settings, ACCESS_USERS, false, false },
        { SERVICE "SystemSharedMemoryStatus", grpc_shared_status, ACCESS_USERS, false, false },
        { SERVICE "SystemSharedMemoryRegister", grpc_shared_register, ACCESS_USERS, false, false },
        { SERVICE "SystemSharedMemoryUnregister", grpc_shared_unregister, ACCESS_USERS, false, false },
        { SERVICE "CudaSharedMemoryUnregister", grpc_cuda_unregister, ACCESS_USERS, false, false },
        { "/grpc.health.v1.Health/Check", grpc_health, ACCESS_EVERYONE, false, false },
        { "/grpc.health.v1.Health/Watch", grpc_watch, ACCESS_EVERYONE, false, false },
        { "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", grpc_reflection, ACCESS_USERS, true, false },
        { "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", grpc_reflection, ACCESS_USERS, true,
          false },
#undef SERVICE
    };

    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (strcmp(methods[i].path, path) == 0)
            return &methods[i];
    return NULL;
}
