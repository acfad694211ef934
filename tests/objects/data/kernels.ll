; Four AMD kernels that differ in what a reader must tell apart: nothing special, static LDS, an array in
; scratch, a stack whose size is known only at run time.
target triple = "amdgcn-amd-amdhsa"
@tile = internal addrspace(3) global [512 x float] poison, align 16
define amdgpu_kernel void @copy(ptr addrspace(1) %x, ptr addrspace(1) %y, i32 %n) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr float, ptr addrspace(1) %x, i32 %i
  %v = load float, ptr addrspace(1) %p
  %q = getelementptr float, ptr addrspace(1) %y, i32 %i
  store float %v, ptr addrspace(1) %q
  ret void
}
define amdgpu_kernel void @lds(ptr addrspace(1) %x) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %l = getelementptr [512 x float], ptr addrspace(3) @tile, i32 0, i32 %i
  store float 1.0, ptr addrspace(3) %l
  %j = xor i32 %i, 1
  %m = getelementptr [512 x float], ptr addrspace(3) @tile, i32 0, i32 %j
  %v = load volatile float, ptr addrspace(3) %m
  store float %v, ptr addrspace(1) %x
  ret void
}
define amdgpu_kernel void @stack(ptr addrspace(1) %x, i32 %k) #0 {
  %a = alloca [16 x i32], align 4, addrspace(5)
  %p = getelementptr [16 x i32], ptr addrspace(5) %a, i32 0, i32 %k
  store volatile i32 7, ptr addrspace(5) %p
  %v = load volatile i32, ptr addrspace(5) %a
  store i32 %v, ptr addrspace(1) %x
  ret void
}
define amdgpu_kernel void @dynamic(ptr addrspace(1) %x, i32 %n) #0 {
  %a = alloca i32, i32 %n, align 4, addrspace(5)
  %p = getelementptr i32, ptr addrspace(5) %a, i32 3
  store volatile i32 7, ptr addrspace(5) %p
  %v = load volatile i32, ptr addrspace(5) %a
  store i32 %v, ptr addrspace(1) %x
  ret void
}
declare i32 @llvm.amdgcn.workitem.id.x()
attributes #0 = { "amdgpu-flat-work-group-size"="1,256" }
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}
