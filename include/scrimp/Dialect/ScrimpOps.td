//===- ScrimpOps.td - all ops of the dialect ----------------------------------------------------------------------===//
#ifndef SCRIMP_OPS_TD
#define SCRIMP_OPS_TD

include "scrimp/Dialect/ElementwiseOps.td"
include "scrimp/Dialect/ShapeOps.td"
include "scrimp/Dialect/ReductionOps.td"
include "scrimp/Dialect/ContractionOps.td"
include "scrimp/Dialect/NeuralOps.td"
include "scrimp/Dialect/OptimizerOps.td"
include "scrimp/Dialect/StructureOps.td"
include "scrimp/Dialect/CommandOps.td"
include "scrimp/Dialect/RoleAttributes.td"
include "scrimp/Dialect/CollectiveOps.td"
include "scrimp/Dialect/ConvolutionOps.td"
include "scrimp/Dialect/IndexingOps.td"

#endif
