"""Cost of recording a training run.

gpu                Recording on a GPU; a script of its own
tensor_statistics  Statistics of one tensor; a script of its own
training_step      A recorded step beside a plain one and beside comgra
trainings          The trainings that are recorded, with seeded weights and data
"""
