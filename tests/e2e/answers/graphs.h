// SPDX-License-Identifier: Apache-2.0
// graphs.h: graphs: nodes, edges, instances, updates.
#pragma once
#include "things.h"

namespace {

// ---- graphs
inline void graphs() {
    Things t;
    start();
    t.make();
    ask::looks_behind = true;
    CUgraph g = nullptr;
    CUgraphNode a = nullptr, b = nullptr, n = nullptr;
    cuGraphCreate(&g, 0);
    cuGraphAddEmptyNode(&a, g, nullptr, 0);
    cuGraphAddEmptyNode(&b, g, &a, 1);
    CUcontext context;
    cuCtxGetCurrent(&context);
    question("create_flags", [&] {
        CUgraph h;
        return number(cuGraphCreate(&h, 1));
    });
    question("create_null", [&] { return number(cuGraphCreate(nullptr, 0)); });
    question("destroy_null", [&] { return number(cuGraphDestroy(nullptr)); });
    question("exec_destroy_null", [&] { return number(cuGraphExecDestroy(nullptr)); });
    question("node_destroy_null", [&] { return number(cuGraphDestroyNode(nullptr)); });
    question("add_null", [&] { return number(cuGraphAddEmptyNode(nullptr, g, nullptr, 0)); });
    question("add_no_graph", [&] { return number(cuGraphAddEmptyNode(&n, nullptr, nullptr, 0)); });
    question("add_twice_dependency", [&] {
        CUgraphNode d[] = {a, a};
        return number(cuGraphAddEmptyNode(&n, g, d, 2));
    });
    question("add_null_dependency", [&] {
        CUgraphNode d[] = {nullptr};
        return number(cuGraphAddEmptyNode(&n, g, d, 1));
    });
    question("add_foreign_dependency", [&] {
        CUgraph h;
        cuGraphCreate(&h, 0);
        return number(cuGraphAddEmptyNode(&n, h, &a, 1));
    });
    question("cycle", [&] {
        CUgraph h;
        CUgraphNode x, y;
        cuGraphCreate(&h, 0);
        cuGraphAddEmptyNode(&x, h, nullptr, 0);
        cuGraphAddEmptyNode(&y, h, &x, 1);
        const int r = cuGraphAddDependencies(h, &y, &x, nullptr, 1);
        CUgraphExec e;
        return number(r) + " " + number(cuGraphInstantiate(&e, h, 0));
    });
    question("self_dependency", [&] { return number(cuGraphAddDependencies(g, &a, &a, nullptr, 1)); });
    question("dependency_again", [&] { return number(cuGraphAddDependencies(g, &a, &b, nullptr, 1)); });
    question("remove_absent", [&] { return number(cuGraphRemoveDependencies(g, &b, &a, nullptr, 1)); });
    question("nodes", [&] {
        size_t c = 0;
        const int rc = cuGraphGetNodes(g, nullptr, &c);
        return number(rc) + " " + number(c);
    });
    question("nodes_few", [&] {
        size_t c = 1;
        CUgraphNode l[1];
        const int rc = cuGraphGetNodes(g, l, &c);
        return number(rc) + " " + number(c);
    });
    question("nodes_many", [&] {
        size_t c = 9;
        CUgraphNode l[9];
        l[8] = a;
        const int rc = cuGraphGetNodes(g, l, &c);
        return number(rc) + " " + number(c) + (l[8] ? " kept" : " null");
    });
    question("nodes_null", [&] { return number(cuGraphGetNodes(g, nullptr, nullptr)); });
    question("roots", [&] {
        size_t c = 0;
        const int rc = cuGraphGetRootNodes(g, nullptr, &c);
        return number(rc) + " " + number(c);
    });
    question("edges", [&] {
        size_t c = 0;
        const int rc = cuGraphGetEdges(g, nullptr, nullptr, nullptr, &c);
        return number(rc) + " " + number(c);
    });
    question("type", [&] {
        CUgraphNodeType y;
        const int rc = cuGraphNodeGetType(a, &y);
        return number(rc) + " " + number(y);
    });
    question("type_null", [&] { return number(cuGraphNodeGetType(a, nullptr)); });
    question("kernel_params_of_empty", [&] {
        CUDA_KERNEL_NODE_PARAMS p;
        return number(cuGraphKernelNodeGetParams(a, &p));
    });
    question("memset_params_of_empty", [&] {
        CUDA_MEMSET_NODE_PARAMS p;
        return number(cuGraphMemsetNodeGetParams(a, &p));
    });
    for (unsigned flags = 0; flags <= 16; ++flags)
        question("instantiate_flags_" + number(flags), [&] {
            CUgraphExec e = nullptr;
            cuuint64_t had = 77;
            const int rc = cuGraphInstantiate(&e, g, flags);
            int get = -1;
            if (e) {
                get = cuGraphExecGetFlags(e, &had);
                cuGraphExecDestroy(e);
            }
            return number(rc) + " " + number(get) + " " + number(had);
        });
    question("instantiate_null", [&] { return number(cuGraphInstantiate(nullptr, g, 0)); });
    question("instantiate_no_graph", [&] {
        CUgraphExec e;
        return number(cuGraphInstantiate(&e, nullptr, 0));
    });
    for (unsigned long long flags : {0ull, 1ull, 2ull, 3ull, 4ull, 8ull, 16ull})
        question("instantiate_params_" + number(flags), [&] {
            CUgraphExec e = nullptr;
            CUDA_GRAPH_INSTANTIATE_PARAMS p{};
            p.flags = flags;
            p.hUploadStream = t.stream;
            const int rc = cuGraphInstantiateWithParams(&e, g, &p);
            if (e) cuGraphExecDestroy(e);
            return number(rc) + " " + number(p.result_out);
        });
    question("launch_null", [&] { return number(cuGraphLaunch(nullptr, t.stream)); });
    question("upload_null", [&] { return number(cuGraphUpload(nullptr, t.stream)); });
    question("upload", [&] { return number(cuGraphUpload(t.exec, t.stream)); });
    question("launch_legacy", [&] { return number(cuGraphLaunch(t.exec, nullptr)); });
    CUDA_KERNEL_NODE_PARAMS k{};
    void* parameters[] = {&t.device};
    k.func = t.function;
    k.gridDimX = k.gridDimY = k.gridDimZ = k.blockDimX = k.blockDimY = k.blockDimZ = 1;
    k.kernelParams = parameters;
    question("kernel", [&] { return number(cuGraphAddKernelNode(&n, g, nullptr, 0, &k)); });
    question("kernel_null", [&] { return number(cuGraphAddKernelNode(&n, g, nullptr, 0, nullptr)); });
    question("kernel_no_function", [&] {
        CUDA_KERNEL_NODE_PARAMS q = k;
        q.func = nullptr;
        return number(cuGraphAddKernelNode(&n, g, nullptr, 0, &q));
    });
    question("kernel_no_parameters", [&] {
        CUDA_KERNEL_NODE_PARAMS q = k;
        q.kernelParams = nullptr;
        return number(cuGraphAddKernelNode(&n, g, nullptr, 0, &q));
    });
    for (unsigned block : {0u, 1024u, 1025u})
        for (unsigned grid : {0u, 1u, 0x80000000u})
            question("kernel_shape_" + number(grid) + "_" + number(block), [&] {
                CUDA_KERNEL_NODE_PARAMS q = k;
                q.blockDimX = block;
                q.gridDimX = grid;
                CUgraph h;
                cuGraphCreate(&h, 0);
                const int rc = cuGraphAddKernelNode(&n, h, nullptr, 0, &q);
                CUgraphExec e;
                return number(rc) + " " + (rc ? "" : number(cuGraphInstantiate(&e, h, 0)));
            });
    question("kernel_shared", [&] {
        CUDA_KERNEL_NODE_PARAMS q = k;
        q.sharedMemBytes = 1 << 24;
        CUgraph h;
        cuGraphCreate(&h, 0);
        const int rc = cuGraphAddKernelNode(&n, h, nullptr, 0, &q);
        CUgraphExec e;
        return number(rc) + " " + (rc ? "" : number(cuGraphInstantiate(&e, h, 0)));
    });
    // Fills and copies as nodes: the same mistakes as calls.
    for (const string& kind : kinds) {
        question("memset_of/" + kind, [&] {
            const Place place = make(kind);
            CUDA_MEMSET_NODE_PARAMS p{D(place.p), 0, 0, 1, 64, 1};
            CUgraph h;
            cuGraphCreate(&h, 0);
            const int rc = cuGraphAddMemsetNode(&n, h, nullptr, 0, &p, context);
            cuGraphDestroy(h);
            return number(rc);
        });
        question("memcpy_to/" + kind, [&] {
            const Place place = make(kind);
            cudaGraph_t h;
            cudaGraphCreate(&h, 0);
            cudaGraphNode_t m;
            const string rc =
                kept(cudaGraphAddMemcpyNode1D(&m, h, nullptr, 0, place.p, t.device, 64, cudaMemcpyDefault));
            cudaGraphDestroy(h);
            return rc;
        });
        question("memfree_of/" + kind, [&] {
            const Place place = make(kind);
            CUgraph h;
            cuGraphCreate(&h, 0);
            const int rc = cuGraphAddMemFreeNode(&n, h, nullptr, 0, D(place.p));
            cuGraphDestroy(h);
            return number(rc);
        });
    }
    for (unsigned unit : {0u, 1u, 2u, 3u, 4u, 8u})
        for (size_t width : {0ul, 16ul, 1ul << 20})
            for (size_t height : {0ul, 1ul, 4ul})
                question("memset_" + number(unit) + "_" + number(width) + "_" + number(height), [&] {
                    CUDA_MEMSET_NODE_PARAMS p{D(t.device), 64, 0, unit, width, height};
                    CUgraph h;
                    cuGraphCreate(&h, 0);
                    const int rc = cuGraphAddMemsetNode(&n, h, nullptr, 0, &p, context);
                    cuGraphDestroy(h);
                    return number(rc);
                });
    question("host_null", [&] {
        CUDA_HOST_NODE_PARAMS p{};
        return number(cuGraphAddHostNode(&n, g, nullptr, 0, &p));
    });
    question("child_null", [&] { return number(cuGraphAddChildGraphNode(&n, g, nullptr, 0, nullptr)); });
    question("child_self", [&] { return number(cuGraphAddChildGraphNode(&n, g, nullptr, 0, g)); });
    question("event_record_null", [&] { return number(cuGraphAddEventRecordNode(&n, g, nullptr, 0, nullptr)); });
    question("event_wait_null", [&] { return number(cuGraphAddEventWaitNode(&n, g, nullptr, 0, nullptr)); });
    // Memory nodes, and what may be done with such a graph.
    CUgraph m = nullptr;
    CUgraphNode alloc = nullptr;
    CUDA_MEM_ALLOC_NODE_PARAMS mem{};
    mem.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    mem.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    mem.bytesize = 512;
    cuGraphCreate(&m, 0);
    const int added = cuGraphAddMemAllocNode(&alloc, m, nullptr, 0, &mem);
    CUgraphExec me = nullptr;
    const int made = cuGraphInstantiate(&me, m, 0);
    question("memory_node", [&] { return number(added) + " " + number(made); });
    question("memory_instantiate_twice", [&] {
        CUgraphExec e;
        return number(cuGraphInstantiate(&e, m, 0));
    });
    question("memory_clone", [&] {
        CUgraph c;
        return number(cuGraphClone(&c, m));
    });
    question("memory_child", [&] { return number(cuGraphAddChildGraphNode(&n, g, nullptr, 0, m)); });
    question("memory_destroy_node", [&] { return number(cuGraphDestroyNode(alloc)); });
    question("memory_launch", [&] { return number(cuGraphLaunch(me, t.stream)); });
    question("memory_launch_twice", [&] { return number(cuGraphLaunch(me, t.stream)); });
    question("memory_free", [&] {
        cuGraphLaunch(me, t.stream);
        return number(cuMemFreeAsync(mem.dptr, t.stream));
    });
    question("memory_size_0", [&] {
        CUDA_MEM_ALLOC_NODE_PARAMS p = mem;
        p.bytesize = 0;
        CUgraph c;
        cuGraphCreate(&c, 0);
        return number(cuGraphAddMemAllocNode(&n, c, nullptr, 0, &p));
    });
    // Updates.
    for (int what = 0; what < 6; ++what)
        question("update_" + number(what), [&] {
            CUgraph o, u;
            CUgraphNode x, y;
            cuGraphCreate(&o, 0);
            cuGraphCreate(&u, 0);
            cuGraphAddKernelNode(&x, o, nullptr, 0, &k);
            CUDA_KERNEL_NODE_PARAMS q = k;
            if (what == 1) q.blockDimX = 64;
            if (what == 4) q.blockDimX = 4096;
            if (what == 2) cuGraphAddEmptyNode(&y, u, nullptr, 0);
            else cuGraphAddKernelNode(&y, u, nullptr, 0, &q);
            if (what == 3) cuGraphAddEmptyNode(&n, u, &y, 1);
            if (what == 5) cuGraphAddEmptyNode(&n, u, nullptr, 0);
            CUgraphExec e = nullptr;
            cuGraphInstantiate(&e, o, 0);
            CUgraphExecUpdateResultInfo info{};
            const int rc = cuGraphExecUpdate(e, u, &info);
            return number(rc) + " " + number(info.result);
        });
    question("exec_kernel_set", [&] {
        CUgraph o;
        CUgraphNode x;
        cuGraphCreate(&o, 0);
        cuGraphAddKernelNode(&x, o, nullptr, 0, &k);
        CUgraphExec e;
        cuGraphInstantiate(&e, o, 0);
        const int r = cuGraphExecKernelNodeSetParams(e, x, &k);
        return number(r) + " " + number(cuGraphExecKernelNodeSetParams(e, a, &k));
    });
    question("enabled", [&] {
        CUgraph o;
        CUgraphNode x;
        cuGraphCreate(&o, 0);
        cuGraphAddKernelNode(&x, o, nullptr, 0, &k);
        CUgraphExec e;
        cuGraphInstantiate(&e, o, 0);
        unsigned on = 7;
        const int r = cuGraphNodeGetEnabled(e, x, &on);
        return number(r) + " " + number(on) + " " + number(cuGraphNodeSetEnabled(e, x, 0));
    });
    // Conditional nodes.
    for (int type = 0; type < 4; ++type)
        for (unsigned size : {0u, 1u, 2u, 3u})
            for (unsigned flags : {0u, 1u, 2u})
                question("conditional_" + number(type) + "_" + number(size) + "_" + number(flags), [&] {
                    CUgraph c;
                    cuGraphCreate(&c, 0);
                    CUgraphConditionalHandle handle = 0;
                    const int h = cuGraphConditionalHandleCreate(&handle, c, context, 1, flags);
                    CUgraphNodeParams p{};
                    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
                    p.conditional.handle = handle;
                    p.conditional.type = static_cast<CUgraphConditionalNodeType>(type);
                    p.conditional.size = size;
                    p.conditional.ctx = context;
                    const int add = cuGraphAddNode(&n, c, nullptr, nullptr, 0, &p);
                    CUgraphNode second;
                    const int twice = add ? -1 : cuGraphAddNode(&second, c, nullptr, nullptr, 0, &p);
                    CUgraphExec e = nullptr;
                    const int inst = add ? -1 : cuGraphInstantiate(&e, c, 0);
                    return number(h) + " " + number(add) + " " + number(twice) + " " + number(inst);
                });
    question("user_object_0", [&] {
        CUuserObject u;
        return number(cuUserObjectCreate(&u, nullptr, nothing, 0, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    });
    question("user_object_flags", [&] {
        CUuserObject u;
        return number(cuUserObjectCreate(&u, nullptr, nothing, 1, 0));
    });
    question("user_object", [&] {
        CUuserObject u = nullptr;
        const int r = cuUserObjectCreate(&u, nullptr, nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
        return number(r) + " " + number(cuGraphRetainUserObject(g, u, 1, 0)) + " " +
               number(cuGraphReleaseUserObject(g, u, 1));
    });
    question("debug_print", [&] { return number(cuGraphDebugDotPrint(g, "/dev/null", 0)); });
    question("debug_print_folder", [&] { return number(cuGraphDebugDotPrint(g, "/nonexistent/a", 0)); });
}

}  // namespace
