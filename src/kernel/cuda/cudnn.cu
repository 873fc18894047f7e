/* cudnn.cu - cuDNN: the library is opened, and plans convolutions. A plan is the first of its
 * proposals whose sums have a fixed order and whose workspace fits. */
#include "kernel/cuda/cudnn.cuh"

#ifdef QKV_CUDNN

#include <cudnn.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <map>

enum { PLANS = 1024, PROPOSALS = 64, NOTES = 16 };
static const int64_t workspace_most = (int64_t)256 << 20;

/* ---- the library ----------------------------------------------------------------------------- */

#define FUNCTIONS(ENTRY)                                                                           \
    ENTRY(cudnnCreate)                                                                             \
    ENTRY(cudnnSetStream)                                                                          \
    ENTRY(cudnnBackendCreateDescriptor)                                                            \
    ENTRY(cudnnBackendDestroyDescriptor)                                                           \
    ENTRY(cudnnBackendSetAttribute)                                                                \
    ENTRY(cudnnBackendGetAttribute)                                                                \
    ENTRY(cudnnBackendFinalize)                                                                    \
    ENTRY(cudnnBackendExecute)

static struct {
#define ENTRY(name) decltype(&::name) name;
    FUNCTIONS(ENTRY)
#undef ENTRY
} lib;

static cudnnHandle_t handle;
typedef cudnnBackendDescriptor_t descriptor;

static bool open_library(void)
{
    const char *name = getenv("QKV_CUDNN");
    void *object = dlopen(name ? name : "libcudnn.so.9", RTLD_NOW | RTLD_GLOBAL);
    bool all = object != NULL;
#define ENTRY(name)                                                                                \
    lib.name = all ? (decltype(lib.name))dlsym(object, #name) : NULL;                              \
    all = all && lib.name;
    FUNCTIONS(ENTRY)
#undef ENTRY
    return all && lib.cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS &&
           lib.cudnnSetStream(handle, cuda_stream()) == CUDNN_STATUS_SUCCESS;
}

static bool ready(void)
{
    static const bool opened = open_library();
    return opened;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

/* Descriptors of a plan that is being made, freed together. The first failure is remembered, and
 * what follows it does nothing. */
struct making {
    descriptor made[PROPOSALS];
    int count;
    bool failed;
};

static descriptor create(making *m, cudnnBackendDescriptorType_t type)
{
    descriptor d = NULL;
    if (m->failed || m->count == PROPOSALS ||
        lib.cudnnBackendCreateDescriptor(type, &d) != CUDNN_STATUS_SUCCESS) {
        m->failed = true;
        return NULL;
    }
    return m->made[m->count++] = d;
}

static void set(making *m, descriptor d, cudnnBackendAttributeName_t what,
                cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    m->failed = m->failed || lib.cudnnBackendSetAttribute(d, what, type, count, values) !=
                                 CUDNN_STATUS_SUCCESS;
}

static void finish(making *m, descriptor d)
{
    m->failed = m->failed || lib.cudnnBackendFinalize(d) != CUDNN_STATUS_SUCCESS;
}

static void free_made(making *m)
{
    while (m->count-- > 0)
        if (m->made[m->count])
            (void)lib.cudnnBackendDestroyDescriptor(m->made[m->count]);
}

/* An operand, (n, height, width, c) in memory; the library names n, c, height, width. */
static descriptor tensor(making *m, int64_t name, int64_t n, int64_t c, int64_t height,
                         int64_t width)
{
    const int64_t sizes[] = {n, c, height, width};
    const int64_t strides[] = {c * height * width, 1, c * width, c};
    const int64_t bytes = 16; /* of alignment */
    const cudnnDataType_t type = CUDNN_DATA_BFLOAT16;
    descriptor d = create(m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(m, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(m, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes);
    set(m, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    set(m, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &name);
    set(m, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &bytes);
    finish(m, d);
    return d;
}

static descriptor windows(making *m, const cudnn_problem *p)
{
    const int64_t dimensions = 2, around[] = {p->rows, p->columns}, dense[] = {1, 1};
    const int64_t strides[] = {p->stride, p->stride};
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    descriptor d = create(m, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(m, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    set(m, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(m, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dimensions);
    set(m, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, around);
    set(m, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, around);
    set(m, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dense);
    set(m, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides);
    finish(m, d);
    return d;
}

/* What an operation calls its operands and its other attributes, by what it makes. */
static const struct {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t operands[CUDNN_OPERANDS], windows, alpha, beta;
} calls[CUDNN_OPERANDS] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA}};

static descriptor graph(making *m, const cudnn_problem *p)
{
    const float one = 1, zero = 0;
    const descriptor operands[CUDNN_OPERANDS] = {
        tensor(m, CUDNN_IMAGES, p->B, p->C, p->H, p->W),
        tensor(m, CUDNN_WEIGHTS, p->N, p->C, p->KH, p->KW),
        tensor(m, CUDNN_RESULT, p->B, p->N, p->OH, p->OW)};
    descriptor over = windows(m, p), d = create(m, calls[p->makes].type);
    for (int i = 0; i < CUDNN_OPERANDS; i++)
        set(m, d, calls[p->makes].operands[i], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operands[i]);
    set(m, d, calls[p->makes].windows, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &over);
    set(m, d, calls[p->makes].alpha, CUDNN_TYPE_FLOAT, 1, &one);
    set(m, d, calls[p->makes].beta, CUDNN_TYPE_FLOAT, 1, &zero);
    finish(m, d);
    descriptor g = create(m, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(m, g, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set(m, g, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d);
    finish(m, g);
    return g;
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* A proposal multiplies on tensor cores, its sums are those of the definition, in an order that
 * sizes decide, and its kernel is in the library: to compile one takes seconds. */
static bool is_wanted(descriptor proposal)
{
    making m = {};
    cudnnBackendNumericalNote_t numerical[NOTES];
    cudnnBackendBehaviorNote_t behaviour[NOTES];
    int64_t count = 0, others = 0;
    bool has_tensor_cores = false;
    descriptor engine = create(&m, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    bool wanted =
        !m.failed &&
        lib.cudnnBackendGetAttribute(proposal, CUDNN_ATTR_ENGINECFG_ENGINE,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                     &engine) == CUDNN_STATUS_SUCCESS &&
        lib.cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                     CUDNN_TYPE_NUMERICAL_NOTE, NOTES, &count,
                                     numerical) == CUDNN_STATUS_SUCCESS &&
        lib.cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
                                     CUDNN_TYPE_BEHAVIOR_NOTE, NOTES, &others,
                                     behaviour) == CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; wanted && i < count && i < NOTES; i++) {
        has_tensor_cores = has_tensor_cores || numerical[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
        wanted = numerical[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC &&
                 numerical[i] != CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION &&
                 numerical[i] != CUDNN_NUMERICAL_NOTE_FFT &&
                 numerical[i] != CUDNN_NUMERICAL_NOTE_WINOGRAD;
    }
    for (int64_t i = 0; wanted && i < others && i < NOTES; i++)
        wanted = behaviour[i] != CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    free_made(&m);
    return wanted && has_tensor_cores;
}

static bool plan_proposal(cudnn_plan *plan, descriptor proposal)
{
    making m = {};
    int64_t bytes = 0, count = 0;
    descriptor d = is_wanted(proposal) ? create(&m, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) : NULL;
    if (!d)
        return false;
    set(&m, d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set(&m, d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
        &proposal);
    finish(&m, d);
    if (!m.failed &&
        lib.cudnnBackendGetAttribute(d, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                     1, &count, &bytes) == CUDNN_STATUS_SUCCESS &&
        bytes <= workspace_most) {
        plan->way = d;
        plan->workspace = (size_t)bytes;
        return true;
    }
    free_made(&m);
    return false;
}

/* The first of the library's proposals for a graph that serves; they come best first. */
static bool plan_graph(cudnn_plan *plan, descriptor g)
{
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    making m = {}, proposals = {};
    descriptor d = create(&m, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set(&m, d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g);
    set(&m, d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finish(&m, d);
    for (int i = 0; i < PROPOSALS; i++)
        (void)create(&proposals, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    int64_t count = 0;
    bool planned = false;
    if (!m.failed && !proposals.failed &&
        lib.cudnnBackendGetAttribute(d, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, PROPOSALS, &count,
                                     proposals.made) == CUDNN_STATUS_SUCCESS)
        for (int64_t i = 0; i < count && i < PROPOSALS && !planned; i++)
            if ((planned = plan_proposal(plan, proposals.made[i])))
                proposals.made[i] = NULL; /* the plan may refer to it */
    free_made(&proposals);
    free_made(&m);
    return planned;
}

static cudnn_plan make_plan(const cudnn_problem *p)
{
    making m = {};
    cudnn_plan plan = {};
    descriptor g = graph(&m, p);
    plan.serves = !m.failed && plan_graph(&plan, g);
    free_made(&m);
    return plan;
}

bool cudnn_problem::operator<(const cudnn_problem &other) const
{
    return memcmp(this, &other, sizeof other) < 0;
}

cudnn_plan *cudnn_plan_of(const cudnn_problem *p)
{
    static std::map<cudnn_problem, cudnn_plan> plans;
    (void)cuda_stream(); /* the thread's card */
    if (!ready())
        return NULL;
    std::map<cudnn_problem, cudnn_plan>::iterator at = plans.find(*p);
    if (at == plans.end() && plans.size() < PLANS)
        at = plans.emplace(*p, make_plan(p)).first;
    return at == plans.end() ? NULL : &at->second;
}

bool cudnn_run(cudnn_plan *p, void *const operands[CUDNN_OPERANDS], void *workspace)
{
    static const int64_t names[CUDNN_OPERANDS] = {CUDNN_IMAGES, CUDNN_WEIGHTS, CUDNN_RESULT};
    making m = {};
    descriptor d = create(&m, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(&m, d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, CUDNN_OPERANDS, names);
    set(&m, d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, CUDNN_OPERANDS,
        operands);
    set(&m, d, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    finish(&m, d);
    (void)cuda_stream(); /* the handle's: what waits for it goes first */
    cuda_wrote();
    p->serves = !m.failed && lib.cudnnBackendExecute(handle, (descriptor)p->way, d) ==
                                 CUDNN_STATUS_SUCCESS;
    free_made(&m);
    return p->serves;
}

#endif
